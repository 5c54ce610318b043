"""What a process sees whose library is older: `stale.py without NAME...` or `stale.py other NAME...`."""

import sys

import torch

from toolkit.native import library

library.load()


class Older:
    """torch.ops.volta, as an older library fills it."""

    def __getattr__(self, name: str) -> object:
        if name not in sys.argv[2:]:
            return getattr(newer, name)
        if sys.argv[1] == "without":
            raise AttributeError(name)
        return newer.prepare  # whose arguments are no other operator's


newer = torch.ops.volta
torch.ops.volta = Older()
from vllm.platforms import current_platform  # noqa: E402 - after the library is made older

print(type(current_platform).__qualname__)
