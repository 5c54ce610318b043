"""Time and bytes to materialize a view against the checkpoint's size, and the rate of `verify` against SHA-256's own.

    python benchmarks/materialize.py [--folder DIR] [--verify-mb 1024]

Checkpoints are sparse files, so that 125 GB of them fit anywhere; DIR needs room for the megabytes of --verify-mb.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.progress import Silent
from toolkit.views.inputs import ViewInputs, read_spec
from toolkit.views.materialize import materialize
from toolkit.views.store import ViewStore
from toolkit.views.verify import verify

FILES = 419  # of Qwen3.8-Flash-Next in NVFP4: 125 GB
SETTINGS = 5  # of these files no shards
TENSORS = 20  # a shard
LAYERS = 48
GB = 10**9
ROUNDS = 5


def sparse_shard(path: Path, names: list[str], num_bytes: int) -> None:
    """A safetensors file whose data are a hole."""
    each = num_bytes // len(names)
    header = {
        name: {"dtype": "U8", "shape": [each], "data_offsets": [each * position, each * (position + 1)]}
        for position, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + each * len(names))


def sparse_checkpoint(folder: Path, num_bytes: int) -> Path:
    """A checkpoint of FILES files."""
    folder.mkdir()
    shards = FILES - SETTINGS
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        names = [f"model.layers.{shard % LAYERS}.mlp.experts.{shard}.{tensor}.weight" for tensor in range(TENSORS - 1)]
        names.append(f"model.layers.{shard}.self_attn.k_proj.weight" if shard < LAYERS else f"model.extra.{shard}")
        sparse_shard(folder / file, names, num_bytes // shards)
        weight_map |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": num_bytes}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    return folder


def materialize_table(root: Path) -> None:
    """One line for each size."""
    titles = ("files", "facts", "spec", "view", "again", "written", "index")
    print(f"{'checkpoint':>12}" + "".join(f"{title:>10}" for title in titles))
    for size in (1, 10, 50, 125):
        base = sparse_checkpoint(root / f"{size} GB", size * GB)
        store = ViewStore.at(str(root / f"store {size}"))
        started = time.perf_counter()
        facts = read_facts(base, "bench")
        read = time.perf_counter()
        spec = read_spec(ViewInputs("bench", str(base), scales="unit"), facts)
        planned = time.perf_counter()
        view = materialize(spec, store)
        made = time.perf_counter()
        materialize(spec, store)
        again = time.perf_counter()
        seconds = (read - started, planned - read, made - planned, again - made)
        shown = "".join(f"{value:8.3f} s" for value in seconds)
        index = len(spec.fresh["model.safetensors.index.json"])
        print(f"{size:9} GB{len(facts.files):10}{shown}{view.bytes_written:10,}{index:10,}")


def verify_rate(root: Path, megabytes: int) -> None:
    """Bytes a second of `verify`, beside those of hashing memory with as many threads; files are in the page cache."""
    base = root / "verified"
    base.mkdir()
    block = os.urandom(1 << 20)
    names = [f"part.{position}" for position in range(8)]
    for name in names:
        sparse_shard(base / f"model-{name}.safetensors", [f"model.{name}"], megabytes * 2**20 // len(names))
        with (base / f"model-{name}.safetensors").open("r+b") as stream:
            stream.seek(4096)
            for _ in range(megabytes // len(names) - 1):
                stream.write(block)
    (base / "config.json").write_text("{}")
    store = ViewStore.at(str(root / "verify store"))
    view = materialize(read_spec(ViewInputs("bench", str(base))), store)
    verify(store, view.name, Silent())  # fills the page cache
    threads = min(os.cpu_count() or 1, 8)
    rates, ceilings = [], []
    for _ in range(ROUNDS):  # in turns, as other work on the machine comes and goes
        ceilings.append(hash_memory(block, megabytes, threads))
        started = time.perf_counter()
        read = verify(store, view.name, Silent()).bytes_read
        rates.append(read / (time.perf_counter() - started))
    rate, ceiling = max(rates), max(ceilings)
    print(f"verify {rate / 1e9:.2f} GB/s, SHA-256 of memory with {threads} threads {ceiling / 1e9:.2f} GB/s: ", end="")
    print(f"{rate / ceiling:.0%} (best of {ROUNDS})")


def hash_memory(block: bytes, megabytes: int, threads: int) -> float:
    """Bytes a second of SHA-256 alone."""

    def work(blocks: int) -> None:
        digest = hashlib.sha256()
        for _ in range(blocks):
            digest.update(block)

    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [megabytes // threads] * threads))
    return megabytes // threads * threads * len(block) / (time.perf_counter() - started)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, help="where the sparse files are made; the temporary folder if not given"
    )
    parser.add_argument("--verify-mb", type=int, default=1024)
    arguments = parser.parse_args()
    with TemporaryDirectory(dir=arguments.folder) as folder:
        materialize_table(Path(folder))
        verify_rate(Path(folder), arguments.verify_mb)


if __name__ == "__main__":
    main()
