"""SHA-256 of many files at once; the interpreter's lock is free while a block is read or hashed."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Protocol, TypeVar

from toolkit.checkpoint.safetensors_header import open_fault

_CHUNK = 1 << 18
_MOST_THREADS = 8  # more only make a disk seek


class HashJob(Protocol):
    """A file to hash."""

    @property
    def file(self) -> Path:
        """Where it is."""

    @property
    def size(self) -> int:
        """Its expected length in bytes."""


Job = TypeVar("Job", bound=HashJob)


class Hashed:
    """A job's outcome: a hash, or why there is none."""

    def __init__(self, sha256: str = "", fault: str = "") -> None:
        self.sha256 = sha256
        self.fault = fault


def hash_files(jobs: Sequence[Job], threads: int, advance: Callable[[int], None]) -> Iterator[tuple[Job, Hashed]]:
    """Each job with its outcome, as they get ready; `advance` is told of bytes, by one thread at a time."""
    stop, telling = threading.Event(), threading.Lock()

    def told(amount: int) -> None:
        with telling:
            advance(amount)

    largest_first = sorted(jobs, key=lambda job: -job.size)
    with ThreadPoolExecutor(threads or min(os.cpu_count() or 1, _MOST_THREADS)) as pool:
        running = {pool.submit(_hash, job.file, stop, told): job for job in largest_first}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:  # an interrupt must not wait for 5 GB to be read
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _hash(file: Path, stop: threading.Event, advance: Callable[[int], None]) -> Hashed:
    digest, block = hashlib.sha256(), bytearray(_CHUNK)
    view = memoryview(block)
    try:
        with file.open("rb", buffering=0) as stream:
            while not stop.is_set() and (length := stream.readinto(block)):
                digest.update(view[:length])
                advance(length)
    except OSError as error:
        return Hashed(fault=open_fault(error))
    return Hashed(digest.hexdigest())
