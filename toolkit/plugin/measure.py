"""Measuring keys and values as they enter the KV cache, while calibration's prompts run.

The point of measurement is the attention implementation's cache write: after RoPE and norms, and of real tokens only
(slot -1 is padding). It begins after warm-up and needs an eager engine, as a captured graph would not call it again.
Which prompts run is told by a file: calibration replaces it, and each worker looks at it before every step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from toolkit.planning.kv_measurement import BIN_SHIFT, BINS, CONTROL_FILE, Measurement, Tally
from toolkit.plugin.layers import shared_with
from toolkit.plugin.report import write_data


class Counter:
    """Magnitudes of one layer's keys or values, counted on their device."""

    def __init__(self, device: torch.device) -> None:
        self.bins = torch.zeros(BINS, dtype=torch.int64, device=device)
        self.largest = torch.zeros((), dtype=torch.int32, device=device)

    def add(self, stored: Tensor) -> None:
        """Count every element of a tensor of any shape and floating-point type."""
        bits = stored.to(torch.float32).view(torch.int32).bitwise_and(0x7FFFFFFF).reshape(-1)
        if bits.numel():
            self.bins += torch.bincount(bits >> BIN_SHIFT, minlength=BINS)
            self.largest = torch.maximum(self.largest, bits.max())  # magnitudes are ordered as their bits are

    def tally(self, layer: str, kind: str) -> Tally:
        """What was counted."""
        counts = self.bins.tolist()
        largest = float(self.largest.cpu().view(torch.float32))
        return Tally(layer, kind, largest, {number: count for number, count in enumerate(counts) if count})


class Measuring:
    """One worker's part in a calibration; `follow` is called before each step."""

    def __init__(self, layers: Mapping[str, Any], folder: Path, *, rank: int, world_size: int) -> None:
        self._folder, self._rank, self._world_size = folder, rank, world_size
        self._seen: tuple[int, int] | None = None
        self._segment: str | None = None
        self._tokens: dict[str, int] = {}
        self._counters: dict[tuple[str, str], Counter] = {}
        for name, layer in layers.items():
            if shared_with(layer) is None:
                layer.impl.do_kv_cache_update = self._watched(name, layer)

    def follow(self) -> None:
        """Begin or end a segment where the control file says so."""
        control = self._folder / CONTROL_FILE
        try:
            status = control.stat()
        except FileNotFoundError:
            return
        if self._seen == (status.st_ino, status.st_mtime_ns):
            return
        self._seen = (status.st_ino, status.st_mtime_ns)
        segment = json.loads(control.read_text(encoding="utf-8"))["segment"]
        if segment != self._segment:
            self._end()
            self._segment = segment

    def _end(self) -> None:
        if self._segment is not None:
            measurement = Measurement(
                segment=self._segment,
                rank=self._rank,
                world_size=self._world_size,
                pid=os.getpid(),
                tokens=max(self._tokens.values(), default=0),
                tallies=tuple(counter.tally(*place) for place, counter in sorted(self._counters.items())),
            )
            write_data(self._folder, measurement.file_name, measurement.to_data())
        self._tokens.clear()
        self._counters.clear()

    def _watched(self, name: str, layer: Any) -> Callable[..., None]:
        update = getattr(layer.impl, "do_kv_cache_update", None)
        if update is None or hasattr(layer, "kv_lora_rank"):
            why = "its cache holds one latent vector" if update is not None else "it has no cache write of its own"
            raise NotImplementedError(f"The keys and values of {name} cannot be measured: {why}.")

        def measured(layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor) -> None:
            if self._segment is not None:
                self._count(name, key, value, slot_mapping)
            update(layer, key, value, kv_cache, slot_mapping)

        return measured

    def _count(self, name: str, key: Tensor, value: Tensor, slots: Tensor) -> None:
        tokens = min(len(key), len(slots))
        real = slots[:tokens] >= 0
        self._tokens[name] = self._tokens.get(name, 0) + int(real.sum())
        for kind, stored in (("k", key), ("v", value)):
            counter = self._counters.setdefault((name, kind), Counter(stored.device))
            counter.add(stored[:tokens][real])
