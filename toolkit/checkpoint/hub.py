"""A repository of a model hub at one commit, in the hub library's own cache, where other tools find it as well."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from errno import EACCES, EDQUOT, EEXIST, EFBIG, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import Any

from toolkit.checkpoint.index import INDEX_FILE, read_index
from toolkit.checkpoint.local import CONFIG_FILE
from toolkit.checkpoint.progress import Progress, step
from toolkit.config.paths import user_path
from toolkit.errors import CheckFailedError, ConfigurationError, ToolkitError

_DISK_FAULTS = frozenset({ENOSPC, EDQUOT, EFBIG, EROFS, EACCES, EPERM, ENOTDIR, EEXIST})
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_REVISION = re.compile(r"[0-9a-f]{40}")

ALLOWED = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken")
"""Weights, settings and tokenizers; never code, never pickles."""
IGNORED = ("original/*", "onnx/*", "consolidated*")
"""Further copies of the same weights, which no engine of ours reads."""


@dataclass(frozen=True)
class HubSource:
    """A repository at a commit; raises ConfigurationError where either is not spelled as one."""

    repository: str
    revision: str

    def __post_init__(self) -> None:
        if not _REPOSITORY.fullmatch(self.repository) or ".." in self.repository:
            raise ConfigurationError(
                f"checkpoint.source.repository={self.repository!r} is no OWNER/NAME",
                fix="copy it from the model's page, such as Qwen/Qwen3-8B",
            )
        if not _REVISION.fullmatch(self.revision):
            raise ConfigurationError(
                f"checkpoint.source.revision={self.revision!r} is no commit: 40 digits 0-9a-f are needed",
                why="branches and tags move, so that two runs of one recipe could serve different weights",
                fix="copy the full commit from the repository's history",
            )

    @property
    def folder(self) -> Path:
        """Where the hub library keeps this commit's files."""
        return hub_cache() / f"models--{self.repository.replace('/', '--')}" / "snapshots" / self.revision


def hub_cache() -> Path:
    """The hub library's cache, found without importing it (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, as it does)."""
    explicit = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface")  # noqa: PTH118
    return user_path(os.path.expandvars(explicit or f"{home}/hub"), "HF_HUB_CACHE or HF_HOME")


def is_whole(folder: Path) -> bool:
    """Whether config.json and every file that the index names are in the folder; no file is opened but the index."""
    indexed = os.access(folder / INDEX_FILE, os.F_OK)  # unlike Path.exists it does not raise
    weights = read_index(folder / INDEX_FILE).files if indexed else ["model.safetensors"]
    return all(os.access(folder / file, os.F_OK) for file in (CONFIG_FILE, *weights))


def download(source: HubSource, progress: Progress) -> Path:
    """The folder with all of the commit's files; asks the network only for what is not there, and resumes.

    Raises CheckFailedError where the hub cannot be reached, or has no such repository or commit for this user.
    """
    from huggingface_hub import snapshot_download

    if _complete(source):
        return source.folder
    try:
        missing = _missing_bytes(source)
    except Exception as error:
        if is_whole(source.folder):  # downloaded by a tool that kept no list
            return source.folder
        raise _explained(source, error) from error
    try:
        _check_space(missing)
        with step(progress, f"downloading {source.repository}", missing):
            snapshot_download(**_arguments(source), tqdm_class=_reporting(progress))
    except ToolkitError:
        raise
    except Exception as error:
        raise _explained(source, error) from error
    return source.folder


def _arguments(source: HubSource) -> dict[str, Any]:
    return {
        "repo_id": source.repository,
        "revision": source.revision,
        "cache_dir": hub_cache(),
        "endpoint": os.environ.get("HF_ENDPOINT"),
        "allow_patterns": list(ALLOWED),
        "ignore_patterns": list(IGNORED),
    }


def _complete(source: HubSource) -> bool:
    """Whether the library knows the commit's files and has them all; without its list nobody knows what lacks."""
    from huggingface_hub import get_cached_repo_tree, snapshot_download
    from huggingface_hub.errors import CachedRepoTreeNotFoundError, LocalEntryNotFoundError

    try:
        get_cached_repo_tree(source.repository, revision=source.revision, cache_dir=hub_cache())
        snapshot_download(**_arguments(source), local_files_only=True)
    except (CachedRepoTreeNotFoundError, LocalEntryNotFoundError):
        return False
    return True


def _missing_bytes(source: HubSource) -> int:
    """Bytes of the files that are still to be downloaded (a file that was broken off counts whole)."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils._paths import filter_repo_objects

    # Asked first, as it is not retried for half a minute: whoever is offline learns it at once.
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    listed = api.model_info(source.repository, revision=source.revision, files_metadata=True).siblings or []
    sizes = {file.rfilename: file.size or 0 for file in listed}
    wanted = filter_repo_objects(sizes, allow_patterns=list(ALLOWED), ignore_patterns=list(IGNORED))
    return sum(sizes[path] for path in wanted if not (source.folder / path).exists())


def _check_space(needed: int) -> None:
    cache = hub_cache()
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if needed > free:
        raise CheckFailedError(
            f"the download needs {needed / 2**30:.1f} GiB, {cache} has {free / 2**30:.1f} GiB left",
            fix="free some space there, or set HF_HUB_CACHE to a folder on a larger disk",
        )


def _reporting(progress: Progress) -> type:
    """A progress bar class for the library that shows nothing and passes the bytes on."""
    from huggingface_hub.utils.tqdm import tqdm

    class Reporting(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # The library drives two bars of bytes, received and written, and one of files; these are the written ones.
            self._reports = kwargs.get("name") == "huggingface_hub.snapshot_download"
            super().__init__(*args, **kwargs | {"disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> bool | None:
            if self._reports:
                progress.advance(int(n or 0))
            return None

    return Reporting


def _explained(source: HubSource, error: Exception) -> Exception:
    """The library's error in our words; others are handed on as they are."""
    from huggingface_hub import errors

    place = f"{source.repository} at {source.revision[:12]}"
    if isinstance(error, errors.GatedRepoError):
        what = f"{place} is gated"
        fix = "accept its terms on its page, then log in with `hf auth login` (or set HF_TOKEN)"
    elif isinstance(error, errors.RevisionNotFoundError):
        what, fix = f"{source.repository} has no commit {source.revision}", "correct checkpoint.source.revision"
    elif isinstance(error, errors.RepositoryNotFoundError):
        what = f"the hub knows no {source.repository}, or it is private"
        fix = "correct checkpoint.source.repository, or log in with `hf auth login` (or set HF_TOKEN)"
    elif isinstance(error, OSError) and error.errno in _DISK_FAULTS:
        what = f"{hub_cache()} cannot be written: {error.strerror}"
        fix = "free some space there, or set HF_HUB_CACHE to a folder on a larger disk that you can write to"
    elif isinstance(error, OSError | errors.HTTPError):  # type: ignore[attr-defined]
        what = f"{place} is not complete in {hub_cache()}, and the hub cannot be reached"
        fix = "connect to the network and run this again (it resumes), or set checkpoint.source.kind=local and its path"
    else:
        return error
    return CheckFailedError(what, where=os.environ.get("HF_ENDPOINT", ""), why=_first_line(error), fix=fix)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
