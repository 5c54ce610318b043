"""The folders in which this process's libraries write code for themselves and load it again.

Compilers call their modules what they like (Triton `cuda_utils` and `__triton_launcher`, inductor by a digest) and load
them by their files, without the import path: whatever comes from their folders is theirs. A checkpoint's own code is
copied by transformers into one package, and only that package is.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

REMOTE_CODE = "transformers_modules"
"""The package that transformers makes of code that comes with a checkpoint."""


def generated_folders(environment: Mapping[str, str]) -> dict[str, str]:
    """Each folder in full, with the only package that counts there; empty where all do.

    environment: this process's variables. Of each folder the library's own default is named too, as vLLM sets variables
    of others while it compiles.
    """
    return {
        str(absolute): package
        for folder, package in _named(environment)
        if folder
        for absolute in (Path(folder).absolute(), Path(folder).resolve())
    }


def _named(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """As each library reads its variable: vLLM and huggingface_hub expand `~`, the others do not."""
    get = environment.get
    cache = get("XDG_CACHE_HOME") or _at_home("~/.cache")
    yield _at_home(get("VLLM_CACHE_ROOT") or f"{cache}/vllm"), ""
    yield get("TRITON_CACHE_DIR", ""), ""
    yield f"{get('TRITON_HOME') or _at_home('~')}/.triton", ""
    yield get("TORCHINDUCTOR_CACHE_DIR", ""), ""
    with suppress(KeyError, OSError):  # a user without a name: torch has no default then
        yield f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}", ""
    yield get("TORCH_EXTENSIONS_DIR") or f"{cache}/torch_extensions", ""
    hub = os.path.expandvars(_at_home(get("HF_HOME") or f"{cache}/huggingface"))
    yield get("HF_MODULES_CACHE") or f"{hub}/modules", REMOTE_CODE


def _at_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - as the libraries do; it leaves an unknown user as it is
