"""Which kernels are found in modules whose classes hold vLLM's placeholders of packages that are not installed."""

import json
from types import ModuleType

import triton
from vllm.utils.import_utils import PlaceholderModule

from toolkit.plugin.kernels import launched_kernels


def kernel():
    pass


kernel.__module__ = "vllm.made_up"
launched = triton.jit(kernel)
launched.device_caches[0] = None  # as a launch on device 0 leaves code there


class Holder:
    absent = PlaceholderModule("no_such_package")
    wrapped = staticmethod(launched)


module = ModuleType("vllm.made_up")
module.Holder, module.absent = Holder, PlaceholderModule("no_such_package")
print(json.dumps([sorted(launched_kernels({module.__name__: module}, device)) for device in (0, 1)]))
