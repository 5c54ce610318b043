"""One rank of an engine: a process of its own that measures its heads. Arguments: FOLDER RANK RANKS DELAY.

A line on stdin is a step: the keys of its tokens, [tokens][heads], of which this rank stores every RANKS-th head. It
says when it has begun, and may still be at it when the engine answers.
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch

from toolkit.plugin.measure import Measuring

LAYERS = 2


class Cache:
    """An attention implementation whose cache write does nothing."""

    def do_kv_cache_update(self, *_):
        """Store nothing."""


def main() -> None:
    folder, rank, ranks, delay = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    layers = {
        f"model.layers.{n}.self_attn.attn": SimpleNamespace(impl=Cache(), kv_sharing_target_layer_name=None)
        for n in range(LAYERS)
    }
    measuring = Measuring(layers, folder, rank=rank, world_size=ranks)
    print("ready", flush=True)
    for line in sys.stdin:
        keys = torch.tensor(json.loads(line))[:, rank::ranks].unsqueeze(-1)
        measuring.follow()
        print("begun", flush=True)
        time.sleep(delay)
        for number, layer in enumerate(layers.values()):
            scaled = keys * (number + 1)
            layer.impl.do_kv_cache_update(layer, scaled, scaled / 4, None, torch.arange(len(keys)))


if __name__ == "__main__":
    main()
