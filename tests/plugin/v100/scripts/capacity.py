"""What the active platform makes of whole models, hybrids included: decisions, layers' caches, capacity. No GPU.

    capacity.py CASES.json ANSWERS.json

Each case has `model` (a folder with a config.json), `kv`, `speculative` (or null), `memory` in bytes and `arguments` of
EngineArgs. Models are built on the meta device; specs, groups and blocks are upstream's own functions' answers.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sm70.recorder import Recorder, pretend_v100

Recorder().install()  # vLLM's kernels are defined only where Triton has a driver

import torch  # noqa: E402

pretend_v100()

from vllm.config import set_current_vllm_config  # noqa: E402
from vllm.distributed import parallel_state  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase  # noqa: E402
from vllm.model_executor.model_loader.utils import initialize_model  # noqa: E402
from vllm.model_executor.models import registry  # noqa: E402
from vllm.platforms import current_platform  # noqa: E402
from vllm.utils import torch_utils  # noqa: E402
from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout  # noqa: E402
from vllm.v1.core import kv_cache_utils  # noqa: E402
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec  # noqa: E402

registry._run_in_subprocess = lambda function: function()  # a process of its own would have no stand-ins
torch_utils._aux_stream = object()  # a stream needs a GPU; nothing runs on it here
type(current_platform).current_device = classmethod(lambda _: "meta")


def answer(case):
    """One case's configuration, layers and capacity."""
    config = EngineArgs(
        model=case["model"],
        load_format="dummy",
        skip_tokenizer_init=True,
        kv_cache_dtype=case["kv"],
        speculative_config=case["speculative"],
        **case["arguments"],
    ).create_engine_config()
    with set_current_vllm_config(config):
        parallel()
        torch.set_default_dtype(torch.float16)
        with torch.device("meta"):
            model = initialize_model(config)
            drafts = draft(config)
        current_platform.update_block_size_for_backend(config)
        layers = config.compilation_config.static_forward_context
        specs = get_kv_cache_spec(config)
        backends = [layer.get_attn_backend() for layer in layers.values() if isinstance(layer, AttentionLayerBase)]
        layouts = [[layout.name for layout in get_supported_kv_cache_layouts(backends)]]
        resolve_kv_cache_layout(config, layouts, specs.values())
        made = kv_cache_utils.get_kv_cache_configs(config, [specs], [case["memory"]])
        scheduled = kv_cache_utils.generate_scheduler_kv_cache_config(made)
        tokens, concurrency = kv_cache_utils.get_kv_cache_capacity(config, scheduled)
    del model, drafts
    compilation = config.compilation_config
    return {
        "dtype": str(config.model_config.dtype),
        "mode": compilation.mode.name,
        "graphs": compilation.cudagraph_mode.name,
        "ahead": bool(config.scheduler_config.async_scheduling),
        "runner": 2 if config.use_v2_model_runner else 1,
        "states": config.cache_config.mamba_cache_mode,
        "backends": sorted({f"{each.__module__}.{each.__qualname__}" for each in backends}),
        "recurrent": sorted(
            {layer.gdn_prefill_backend for layer in layers.values() if hasattr(layer, "gdn_prefill_backend")}
        ),
        "layers": sorted((spec.block_size, spec.page_size_bytes) for spec in specs.values()),
        "blocks": made[0].num_blocks,
        "tokens": tokens,
        "concurrency": concurrency,
    }


def parallel():
    """One rank; its groups are made anew, as only a mixture of experts has one of experts."""
    if not torch.distributed.is_initialized():
        store = torch.distributed.TCPStore("127.0.0.1", 0, 1, is_master=True)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        parallel_state.init_distributed_environment(1, 0, "tcp://127.0.0.1:0", 0, "gloo")
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(1, 1)


def draft(config):
    """What drafts beside the model, built as its speculator builds it."""
    speculative = config.speculative_config
    if speculative is None or speculative.draft_model_config is None or speculative.method == "ngram":
        return None
    if speculative.method == "draft_model":
        own = replace(config, model_config=speculative.draft_model_config, quant_config=None)
        return initialize_model(own, prefix="draft_model")
    return initialize_model(config, model_config=speculative.draft_model_config)


answers = [answer(case) for case in json.loads(Path(sys.argv[1]).read_text())]
Path(sys.argv[2]).write_text(json.dumps(answers, indent=1))
