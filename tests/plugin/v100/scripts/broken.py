"""A process that asks vLLM for its platform, in a release that is not ours or with a plugin that fails.

broken.py release 0.33.0 [without-nvml] | fault
"""

import sys

import vllm

if sys.argv[1] == "release":
    vllm.__version__ = sys.argv[2]
    if sys.argv[3:]:
        from vllm.utils import import_utils

        del import_utils.import_pynvml  # as in a release that has moved it
else:
    from toolkit.plugin.platform import entry

    def fail(_):
        raise OSError("no such driver")

    entry.visible_capabilities = fail

from vllm.platforms import current_platform

print(type(current_platform).__qualname__)
