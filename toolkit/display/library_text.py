"""A native library as text: what it was built for and from, and how wide each operator sums."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.counted import counted
from toolkit.native.info import Info


def about(info: Info) -> Iterator[str]:
    """A line on the library, then one for each width (fp32, fp64) that operators accumulate in; `none` sum nothing."""
    commit = info.commit[:12] + (" with changes" if info.dirty else "")
    yield f"{info.path}: {', '.join(info.architectures)}, ABI revision {info.abi_revision}, commit {commit}"
    yield f"{counted(len(info.operators), 'operator')} by the width that they accumulate in:"
    for width in sorted({operator.accumulation for operator in info.operators}):
        yield f"  {width:5} {', '.join(item.name for item in info.operators if item.accumulation == width)}"
