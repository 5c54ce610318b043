"""Where compiled code and autotuning results are kept between starts: one folder for each set of versions.

A start whose versions changed never meets code of others, and an old set can be deleted as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

KEPT = "1"


def cache_folder(root: Path, versions: Mapping[str, str]) -> Path:
    """The folder of one set of versions, below the toolkit's cache folder."""
    text = "\n".join(f"{name}={version}" for name, version in sorted(versions.items()))
    return root / "engine" / hashlib.sha256(text.encode()).hexdigest()[:12]


def cache_variables(folder: Path) -> dict[str, str]:
    """The variables that vLLM, inductor and Triton read."""
    return {
        "VLLM_CACHE_ROOT": str(folder / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TRITON_CACHE_AUTOTUNING": KEPT,  # Triton forgets by default which of a kernel's variants was the fastest
    }
