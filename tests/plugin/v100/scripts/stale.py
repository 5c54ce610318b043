"""What a process sees whose library was built before two operators came."""

import torch

from toolkit.native import library

library.load()


class Older:
    """torch.ops.volta, as an older library fills it."""

    def __getattr__(self, name: str) -> object:
        if name in ("rms_norm", "silu_and_mul"):
            raise AttributeError(name)
        return getattr(newer, name)


newer = torch.ops.volta
torch.ops.volta = Older()
from vllm.platforms import current_platform  # noqa: E402 - after the library is made older

print(type(current_platform).__qualname__)
