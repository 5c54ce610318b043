"""Where the libraries write code, by what they say themselves, beside what the plugin makes of their variables."""

import json
import os

from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch.utils.cpp_extension import get_default_build_root
from transformers.utils.hub import HF_MODULES_CACHE
from triton import knobs
from vllm import envs

from toolkit.plugin.generated import generated_folders

extensions = os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root()
any_module = [default_cache_dir(), envs.VLLM_CACHE_ROOT, knobs.cache.dir, extensions]
theirs = {"": any_module, "transformers_modules": [HF_MODULES_CACHE]}
print(json.dumps([generated_folders(os.environ), theirs]))
