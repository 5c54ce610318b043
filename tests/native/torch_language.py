"""Enough of Triton's language, in torch, to run the engine's own integer kernels on a machine without a GPU."""

from dataclasses import dataclass
from types import SimpleNamespace

import torch


@dataclass(frozen=True)
class Pointer:
    """A place in a flat tensor, or places."""

    into: torch.Tensor
    offset: object = 0

    def __add__(self, step):
        return Pointer(self.into, self.offset + step)

    def __sub__(self, step):
        return Pointer(self.into, self.offset - step)

    @property
    def dtype(self):
        return SimpleNamespace(element_ty=self.into.dtype)


@dataclass(frozen=True)
class Language:
    """The functions that a kernel calls as tl.NAME, for one program of a launch."""

    program: tuple[int, ...]
    programs: tuple[int, ...]
    arange = staticmethod(torch.arange)
    maximum = staticmethod(lambda x, y: torch.clamp(x, min=y))
    minimum = staticmethod(lambda x, y: torch.clamp(x, max=y))
    where = staticmethod(torch.where)
    zeros = staticmethod(torch.zeros)
    int32 = torch.int32

    def program_id(self, axis):
        return self.program[axis]

    def num_programs(self, axis):
        return self.programs[axis]

    @staticmethod
    def load(pointer, mask=True, other=0):
        places = torch.as_tensor(pointer.offset)
        mask = torch.as_tensor(mask).expand(places.shape)
        inside = torch.where(mask, places, 0)
        found = pointer.into.flatten()[inside]
        return torch.where(mask, found, torch.as_tensor(other, dtype=found.dtype))

    @staticmethod
    def store(pointer, value, mask=True):
        places = torch.as_tensor(pointer.offset)
        mask = torch.as_tensor(mask).expand(places.shape)
        value = torch.as_tensor(value, dtype=pointer.into.dtype).expand(places.shape)
        pointer.into.view(-1)[places[mask]] = value[mask]
