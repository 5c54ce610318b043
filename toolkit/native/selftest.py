"""Whether this installation's library loads and computes, found out in a second."""

from __future__ import annotations

import math
from typing import Any

from toolkit.errors import CheckFailedError


def run() -> dict[str, Any]:
    """Load the library, decode all 256 E4M3 codes on the CPU and compare them with the format's definition.

    Returns what was used: paths, torch's version, operators, architectures, revision.
    Raises CheckFailedError if a code is wrong.
    """
    import torch

    import toolkit
    from toolkit.native import info, load

    path, facts = load(), info()
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).view(1, 1, 1, 256)
    key, value = (torch.empty(1, 1, 256, dtype=torch.float16) for _ in range(2))
    table, starts = torch.zeros(1, 1, dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    one = torch.ones(1)
    torch.ops.volta.kv_cache_gather(codes, codes, table, starts, None, key, value, one, one)
    wrong = [code for code, got in enumerate(key.flatten().tolist()) if not _same(got, e4m3(code))]
    if wrong:
        raise CheckFailedError(f"the native library decodes E4M3 code {wrong[0]:#04x} wrongly", where=str(path))
    return {
        "paths": [str(path), str(toolkit.__file__)],
        "torch": torch.__version__,
        "operators": [operator.name for operator in facts.operators],
        "architectures": list(facts.architectures),
        "commit": facts.commit,
        "dirty": facts.dirty,
    }


def e4m3(code: int) -> float:
    """The value of an E4M3 code by definition: sign, 4 exponent bits (bias 7), 3 mantissa bits, NaN at the top."""
    sign, exponent, fraction = (-1 if code & 0x80 else 1), code >> 3 & 0xF, code & 7
    if code & 0x7F == 0x7F:
        return math.nan
    return sign * (math.ldexp(fraction, -9) if exponent == 0 else math.ldexp(8 + fraction, exponent - 10))


def _same(got: float, wanted: float) -> bool:
    return got == wanted or (math.isnan(got) and math.isnan(wanted))
