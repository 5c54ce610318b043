"""What the active platform makes of a model: the folder of each is on the command line."""

import json
import os
import sys
from pathlib import Path

import torch
from vllm.config import set_current_vllm_config
from vllm.engine.arg_utils import EngineArgs
from vllm.platforms import current_platform
from vllm.v1.attention.selector import get_attn_backend

from toolkit.plugin.operators import schemas, states
from toolkit.plugin.operators.define import define_upstream_operators
from toolkit.plugin.platform import v100

DTYPES = ("auto", "fp8_e4m3", "fp8_e5m2")


def configuration(folder, kv):
    config = EngineArgs(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        max_model_len=2048,
        max_num_seqs=48,
        kv_cache_dtype=kv,
    ).create_engine_config()
    compilation, model = config.compilation_config, config.model_config
    with set_current_vllm_config(config):
        backend = get_attn_backend(model.get_head_size(), torch.float16, kv)
    return {
        "dtype": str(model.dtype),
        "backend": f"{backend.__module__}.{backend.__qualname__}",
        "mode": compilation.mode.name,
        "graphs": compilation.cudagraph_mode.name,
        "sizes": list(compilation.cudagraph_capture_sizes),
        "kv": config.cache_config.cache_dtype,
        "ahead": bool(config.scheduler_config.async_scheduling),
        "spec": layer_spec(config, kv),
    }


def layer_spec(config, kv):
    """The cache of one attention layer of that model, as the layer itself states it."""
    from vllm.model_executor.layers.attention import Attention

    model, parallel = config.model_config, config.parallel_config
    heads, size = model.get_num_attention_heads(parallel), model.get_head_size()
    with set_current_vllm_config(config):
        torch.set_default_dtype(torch.float16)
        layer = Attention(
            heads,
            size,
            size**-0.5,
            model.get_num_kv_heads(parallel),
            cache_config=config.cache_config,
            prefix="layers.0.attn",
        )
        spec = layer.get_kv_cache_spec(config)
    return {
        "impl": type(layer.impl).__qualname__,
        "block": spec.block_size,
        "page": spec.page_size_bytes,
        "heads": spec.num_kv_heads,
        "size": spec.head_size,
    }


def arguments(text):
    """A schema's arguments and returns, as torch reads them."""
    parsed = torch._C.parse_schema(text)

    def alias(each):
        """Of tensors; upstream's merge_attn_states marks a number as well, which means nothing."""
        return (
            each.alias_info
            and "Tensor" in str(each.type)
            and (sorted(each.alias_info.before_set), each.alias_info.is_write)
        )

    return repr(
        [
            [
                (a.name, str(a.type), a.default_value, a.kwarg_only, bool(alias(a)), bool(alias(a) and alias(a)[1]))
                for a in parsed.arguments
            ],
            [str(a.type) for a in parsed.returns],
        ]
    )


def operators():
    """For each name: that it is defined as listed, and where it is ours, that ours takes the same."""
    answers = {}
    for schema in schemas.read():
        name, _, variant = schema.name.partition(".")
        overload = getattr(getattr(getattr(torch.ops, schema.namespace), name), variant or "default")
        state = states.state_of(schema)
        answer = {
            "kind": state.kind.name,
            "same": arguments(str(overload._schema)) == arguments(schema.qualified + schema.signature),
        }
        if state.kind is states.Kind.native:
            ours = getattr(torch.ops.volta, schema.name).default
            answer["ours"] = [arguments(str(ours._schema)), arguments(schema.qualified + schema.signature)]
        else:
            answer["called"] = called(overload)
        answers[schema.qualified] = answer
    return answers


def called(overload):
    """What a call with the simplest arguments of each type gives or raises."""
    simple = {
        "Tensor": torch.zeros(1),
        "int": 0,
        "float": 0.0,
        "bool": False,
        "str": "",
        "List[int]": [],
        "List[List[int]]": [],
    }
    values = []
    for each in overload._schema.arguments:
        kind = str(each.type)
        dtype = kind == "int" and "type" in each.name
        values.append(None if kind.startswith("Optional") else torch.float16 if dtype else simple.get(kind, 0))
    positional = [v for v, a in zip(values, overload._schema.arguments, strict=True) if not a.kwarg_only]
    named = {a.name: v for v, a in zip(values, overload._schema.arguments, strict=True) if a.kwarg_only}
    try:
        return ["answer", overload(*positional, **named)]
    except NotImplementedError as error:
        return ["refusal", str(error)]
    except Exception as error:  # noqa: BLE001 - it is what is asked
        return ["other", f"{type(error).__name__}: {error}"]


def mapped():
    """Shared libraries of vLLM in this process."""
    import vllm

    root = str(Path(vllm.__file__).parent)
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[-1] for line in lines if root in line})


def gate():
    """What an import of each compiled module of the wheel comes to."""
    import importlib

    import vllm

    root = Path(vllm.__file__).parent
    answers = {}
    for path in sorted(root.rglob("*.so")):
        name = ".".join(["vllm", *path.relative_to(root).with_name(path.name.split(".")[0]).parts])
        try:
            module = importlib.import_module(name)
            answers[name] = getattr(module, "__file__", None) or "empty"
        except Exception as error:  # noqa: BLE001 - it is what is asked
            answers[name] = f"{type(error).__name__}: {error}"
    return answers


VARIABLES = ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_CACHE_AUTOTUNING")
report = {
    "versions": v100._versions(),
    "caches": {name: os.environ.get(name) for name in VARIABLES},
    "probes": {
        "custom all-reduce": current_platform.use_custom_allreduce(),
        "dependent launch": current_platform.is_arch_support_pdl(),
        "an image's attention": current_platform.get_vit_attn_backend(72, torch.float16).name,
    },
    "platform": f"{type(current_platform).__module__}.{type(current_platform).__qualname__}",
    "capability": list(current_platform.get_device_capability()),
    "configurations": {f"{Path(f).name} {kv}": configuration(f, kv) for f in sys.argv[2:] for kv in DTYPES},
    "operators": operators(),
    "noted": sorted(define_upstream_operators().called),
    "gate": gate(),
}

report["mapped"] = mapped()
Path(sys.argv[1]).write_text(json.dumps(report, default=str, indent=1))
