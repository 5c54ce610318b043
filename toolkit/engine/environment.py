"""The engine's exact environment: what the plan sets, what it lets through, and nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from toolkit.config.paths import user_path
from toolkit.errors import ConfigurationError
from toolkit.linux.proc import MARKER

API_KEY = "VLLM_API_KEY"
"""vLLM 0.32.0 reads it (entrypoints/serve/middleware/register.py); a key on the command line is for everyone to see."""

MATTERS = (
    "PYTHON*", "LD_*", "VLLM_*", "VOLTA_*", "CUDA_*", "NVIDIA_*", "NCCL_*", "GLOO_*", "TORCH*", "PYTORCH_*", "TRITON_*",
    "HF_*", "HUGGING_FACE_*", "HUGGINGFACE_*", "TRANSFORMERS_*", "SAFETENSORS_*", "TOKENIZERS_*", "OMP_*", "GOMP_*",
    "KMP_*", "MKL_*", "OPENBLAS_*", "MALLOC_*", "CC", "CXX", "*_proxy", "*_PROXY", "SSL_CERT_*", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
"""Names that change what the engine does or where it looks; dropping one of them is worth a notice."""


@dataclass(frozen=True)
class Environment:
    """What the engine's processes see."""

    values: Mapping[str, str]
    dropped: tuple[str, ...]
    """Variables of the calling shell that would have mattered and were not passed on."""

    @property
    def notice(self) -> str | None:
        """What to tell the user about dropped variables; None where there is nothing to tell."""
        if not self.dropped:
            return None
        names = ", ".join(self.dropped)
        return f"not passed to the engine: {names} (pass one with +engine.environment.NAME=VALUE or engine.inherit)"


def compose(
    planned: Mapping[str, str], inherit: Sequence[str], shell: Mapping[str, str], folder: Path, key: str | None
) -> Environment:
    """The environment of a run whose folder is `folder`; `key` is the API key that clients must send."""
    passed = {name: shell[name] for name in inherit if name in shell}
    ours = {MARKER: str(folder), "SPT_NOENV": "1"}  # vLLM's setproctitle would else overwrite the marker in /proc
    values = {**passed, **planned, **ours}
    if key is not None:
        values[API_KEY] = key
    dropped = sorted(name for name in shell if name not in values and _matters(name))
    return Environment(values, tuple(dropped))


def read_api_key(path: str) -> str:
    """The first line of the key file.

    Raises:
        ConfigurationError: the file cannot be read, holds no key, or others may read it.
    """
    file = user_path(path, "server.api_key_file")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        mode = file.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        fix = _new_key(file) if isinstance(error, FileNotFoundError) else "name a file with the key in its first line"
        raise ConfigurationError("server.api_key_file cannot be read", where=str(file), why=why, fix=fix) from error
    key = lines[0].strip() if lines else ""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        why = "the first line must be the key: printable ASCII without blanks"
        raise ConfigurationError("server.api_key_file holds no key", where=str(file), why=why, fix=_new_key(file))
    if mode & 0o077:
        raise ConfigurationError(
            "server.api_key_file may be read by other users",
            where=str(file),
            why=f"its mode is {mode & 0o777:04o}",
            fix=f"chmod 600 {shlex.quote(str(file))}",
        )
    return key


def _new_key(file: Path) -> str:
    return f"umask 077; python -c 'import secrets; print(secrets.token_urlsafe(32))' > {shlex.quote(str(file))}"


def _matters(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in MATTERS)
