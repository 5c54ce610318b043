"""The phases of vLLM's start, recognised from its log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum


class Phase(Enum):
    """A phase, in the order in which vLLM 0.32.0 goes through them; the value is what the user reads."""

    importing = "importing"
    configuring = "reading the model's configuration"
    starting_core = "starting the engine core"
    loading = "loading weights"
    kv_cache = "allocating the KV cache"
    warming_up = "warming up"
    listening = "opening the server"
    answering = "waiting for the first answer"


BEGINS: Mapping[Phase, re.Pattern[str]] = {
    Phase.configuring: re.compile(r"non-default args"),
    Phase.starting_core: re.compile(r"Initializing a V1 LLM engine"),
    Phase.loading: re.compile(r"Starting to load model|Loading safetensors checkpoint shards"),
    Phase.kv_cache: re.compile(r"Loading weights took|Available KV cache memory"),
    Phase.warming_up: re.compile(r"KV cache size:|Capturing CUDA graph|Warming up|torch\.compile takes"),
    Phase.listening: re.compile(r"Starting vLLM server on|Supported tasks:"),
}
ORDER = {phase: number for number, phase in enumerate(Phase)}


def later_phase(current: Phase, line: str) -> Phase | None:
    """The phase that a log line begins, if it comes after the current one."""
    for phase, pattern in BEGINS.items():
        if ORDER[phase] > ORDER[current] and pattern.search(line):
            return phase
    return None
