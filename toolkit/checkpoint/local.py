"""A checkpoint's facts from its folder: config.json, the safetensors index and headers; no weight is loaded."""

from __future__ import annotations

import gc
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolkit.checkpoint.facts import CheckpointFacts, TensorFacts
from toolkit.checkpoint.faults import check_failed
from toolkit.checkpoint.index import INDEX_FILE, Index, read_index
from toolkit.checkpoint.listing import list_files, list_names
from toolkit.checkpoint.safetensors_header import Shard, open_fault, read_shard
from toolkit.checkpoint.strict_json import StrictJsonError, parse_object
from toolkit.config.whole_numbers import too_large
from toolkit.errors import Rejected

CONFIG_FILE = "config.json"
LARGEST_IN_CONFIG = 2**128
"""Tokenizers write 10**30 for `no limit`, so 64 bits would be too few."""

WEIGHTS = (".safetensors", ".gguf", ".bin", ".pth")
"""Ends of the names of files that hold weights, served from a folder or not."""
NO_WEIGHTS = "*.safetensors"
"""Stands for the file that lacks where no weights are there."""

_NUMBERED = re.compile(r"(?P<stem>.*)-\d{5}-of-(?P<count>\d{5})\.safetensors")


def read_facts(folder: Path, name: str) -> CheckpointFacts:
    """The facts of the checkpoint in `folder`, called `name`.

    Raises ConfigurationError where the folder cannot be listed, and one CheckFailedError that lists every fault of
    config.json, the index and the headers.
    """
    with _no_collection():
        return _read(folder, name)


def _read(folder: Path, name: str) -> CheckpointFacts:
    names = list_names(folder)
    config, faults = _read_config(folder)
    index, shards = _read_shards(folder, names)
    faults += index.faults if index else ()
    for shard in shards:
        faults += shard.faults
    tensors, tensor_faults = _gather(index, shards)
    # A broken shard lacks tensors for a reason that is already told.
    faults += tensor_faults if not any(shard.faults for shard in shards) else ()
    if faults:
        raise check_failed(faults, where=str(folder), fix=_fix(faults))
    return CheckpointFacts(
        name=name,
        present=True,
        root=folder,
        config=config,
        tensors=tensors,
        files=list_files(folder),  # only now: what is no checkpoint may be a whole disk
        index_sha256=index.sha256 if index else None,
        weight_bytes=sum(tensor.num_bytes for tensor in tensors.values()),
    )


def is_bare(folder: Path) -> bool:
    """Whether a folder holds config.json and no weights yet, nor an index of any: enough for a plan."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return False  # reading it tells what is wrong
    return CONFIG_FILE in names and INDEX_FILE not in names and not any(name.endswith(WEIGHTS) for name in names)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json alone; CheckFailedError where it is broken."""
    config, faults = _read_config(folder)
    if faults:
        raise check_failed(faults, where=str(folder), fix=_fix(faults))
    return config


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hold the cycle collector: it would walk up to a million young objects again and again, which all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_config(folder: Path) -> tuple[dict[str, Any], tuple[Rejected, ...]]:
    try:
        config = parse_object((folder / CONFIG_FILE).read_bytes())
        senseless = tuple(too_large(config, most=LARGEST_IN_CONFIG))
        return config, tuple(Rejected(CONFIG_FILE, f"{key}: a number of that size means nothing") for key in senseless)
    except OSError as error:
        return {}, (Rejected(CONFIG_FILE, open_fault(error)),)
    except StrictJsonError as fault:
        return {}, (Rejected(CONFIG_FILE, str(fault)),)


def _read_shards(folder: Path, names: Collection[str]) -> tuple[Index | None, list[Shard]]:
    """The index, where there is one, and the files that hold the weights."""
    if INDEX_FILE in names:
        index = read_index(folder / INDEX_FILE)
        return index, [read_shard(folder / file, file) for file in index.files]
    weights = _unindexed(names)
    if not weights:
        return None, [Shard(NO_WEIGHTS, 0, (), (Rejected(NO_WEIGHTS, _no_weights(names)),))]
    absent = [Shard(file, 0, (), (Rejected(file, "does not exist"),)) for file in _absent_numbers(weights)]
    return None, absent + [read_shard(folder / file, file) for file in weights]


def _unindexed(names: Collection[str]) -> list[str]:
    """The weight files of a checkpoint without an index."""
    weights = sorted(name for name in names if name.endswith(".safetensors") and not name.startswith("."))
    # Some publishers add the same weights once more in their own layout; engines pass them over.
    return [file for file in weights if not file.startswith("consolidated")] or weights


def _absent_numbers(weights: Sequence[str]) -> list[str]:
    """Of files numbered 00001-of-00003 those that are not there."""
    series = {(match["stem"], match["count"]) for file in weights if (match := _NUMBERED.fullmatch(file))}
    expected = [
        f"{stem}-{number:05}-of-{count}.safetensors"
        for stem, count in sorted(series)
        for number in range(1, int(count) + 1)
    ]
    return [file for file in expected if file not in weights]


def _no_weights(names: Collection[str]) -> str:
    for suffix, kind in ((".gguf", "a GGUF file"), (".bin", "pickled weights"), (".pth", "pickled weights")):
        found = min((name for name in names if name.endswith(suffix)), default=None)
        if found:
            return f"none in the folder; {found} is {kind}, which is not served from a folder"
    return "none in the folder"


def _gather(index: Index | None, shards: Sequence[Shard]) -> tuple[dict[str, TensorFacts], tuple[Rejected, ...]]:
    """All tensors by name, and where the index and the files disagree."""
    tensors: dict[str, TensorFacts] = {}
    faults: list[Rejected] = []
    for shard in shards:
        for tensor in shard.tensors:
            other = tensors.setdefault(tensor.name, tensor)
            if other is not tensor:
                faults.append(Rejected(tensor.file, f"{tensor.name} is in {other.file} as well"))
    if index is None:
        return tensors, tuple(faults)
    for name, file in index.weight_map.items():
        if name not in tensors or tensors[name].file != file:
            faults.append(Rejected(INDEX_FILE, f"{name} is not in {file}, where the index puts it"))
    extra = tensors.keys() - index.weight_map.keys()
    faults += [Rejected(tensors[name].file, f"{name} is not in {INDEX_FILE}") for name in sorted(extra)]
    return tensors, tuple(faults)


def _fix(faults: Sequence[Rejected]) -> str:
    absent = {CONFIG_FILE: "does not exist", NO_WEIGHTS: "none in the folder"}
    if any(fault.reason.startswith(absent.get(fault.candidate, "-")) for fault in faults):
        return "name the folder that holds config.json and the safetensors files"
    return "download the files named here again; compare their SHA-256 with the publisher's"
