"""A process that asks vLLM for its platform, in a release that is not ours or with a plugin that fails."""

import sys

import vllm

if sys.argv[1] == "release":
    vllm.__version__ = sys.argv[2]
else:
    from toolkit.plugin.platform import entry

    def fail(_):
        raise OSError("no such driver")

    entry.visible_capabilities = fail

from vllm.platforms import current_platform

print(type(current_platform).__qualname__)
