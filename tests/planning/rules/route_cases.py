"""Cases of rules about what engine=v100 has no route for: see rule_cases."""

import cases
from rule_cases import Case, waits

config, on_v100, llama, hybrid, sparse = cases.config, cases.on_v100, cases.llama, cases.hybrid, cases.sparse
gpus = cases.gpu_machine()
NOTHING = cases.facts(config={})
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
DFLASH2 = {"speculative__method": "dflash2", "speculative__tokens": 7}
SIXTEEN = "use a checkpoint in 16 bits"
SHARED = ("dcp.size", "engine=v100 has no attention that shards the KV cache yet", "use dcp=1")
DRAFTS = ("speculative.method", "engine=v100 does not serve DFlash2 drafts yet", "use speculative=mtp3, ngram or none")
LORA = {"engine__extra_arguments": ["--enable-lora"]}
ADAPTERS = (
    "engine.extra_arguments",
    "engine=v100 has no adapters (LoRA) for models with experts yet",
    "leave out --enable-lora, or merge the adapter into a checkpoint",
)
SPARSE = ("checkpoint", "engine=v100 has no sparse attention (Qwen4Exp) yet", "use another model")


def products(scheme):
    return ("checkpoint", f"engine=v100 has no product for {scheme} weights yet", SIXTEEN)


def attention(name):
    message = f"engine=v100 computes attention by TRITON_ATTN, and not by {name}"
    return ("engine.extra_arguments", message, "leave --attention-backend out")


def compiled(name):
    message = f"engine=v100 has no kernels for {name}: vLLM compiles them with TileLang at the start"
    return ("checkpoint", message, "use another model")


def no_shapes(rule):
    return waits(rule, "checkpoint", "the model's shapes are not known", on_v100(), checkpoint=NOTHING, machine=gpus)


CASES = [
    Case("route-dcp", SHARED, on_v100(dcp__size=2, limits__tensor_parallel=4), machine=gpus),
    Case("route-dcp", None, on_v100(dcp__size=1), machine=gpus),
    Case("route-dcp", None, config(dcp__size=2)),
    Case("route-quantised", products("nvfp4"), on_v100(), hybrid(), gpus),
    Case("route-quantised", products("fp8_block"), on_v100(), llama(quantization_config=FP8), gpus),
    Case("route-quantised", None, on_v100(), llama(), gpus),
    Case("route-quantised", None, on_v100(), llama(quantization_config={"quant_method": "strange"}), gpus),
    Case("route-quantised", None, config(), llama(quantization_config=FP8)),
    no_shapes("route-quantised"),
    Case("route-sparse", SPARSE, on_v100(), sparse(), gpus),
    Case("route-sparse", None, on_v100(), hybrid(), gpus),
    Case("route-sparse", None, config(), sparse()),
    no_shapes("route-sparse"),
    Case("route-drafts", DRAFTS, on_v100(**DFLASH2), machine=gpus),
    Case("route-drafts", None, on_v100(speculative__method="ngram", speculative__tokens=3), machine=gpus),
    Case("route-drafts", None, config(**DFLASH2)),
    *(
        Case("route-attention", attention(name), on_v100(engine__extra_arguments=arguments), machine=gpus)
        for name, arguments in (
            ("FLASH_ATTN", ["--attention-backend", "FLASH_ATTN"]),
            ("FLASH_ATTN_V100", ["--attention-backend=FLASH_ATTN_V100"]),
        )
    ),
    *(
        Case("route-attention", None, on_v100(engine__extra_arguments=[f"--attention-backend={name}"]), machine=gpus)
        for name in ("TRITON_ATTN", "triton_attn", "auto")
    ),
    Case("route-attention", None, on_v100(), machine=gpus),
    Case("route-attention", None, config(engine__extra_arguments=["--attention-backend=FLASH_ATTN"])),
    *(
        Case("route-just-in-time", compiled(name), on_v100(), cases.facts(config={"architectures": [name]}), gpus)
        for name in ("DeepseekV4ForCausalLM", "DeepseekV41ForCausalLM", "Glm5NextForConditionalGeneration")
    ),
    Case("route-just-in-time", None, on_v100(), llama(), gpus),
    Case("route-just-in-time", None, on_v100(), NOTHING, gpus),
    Case("route-just-in-time", None, on_v100(), llama(architectures=5), gpus),
    Case("route-just-in-time", None, config(), cases.facts(config={"architectures": ["DeepseekV4ForCausalLM"]})),
    Case("route-adapters", ADAPTERS, on_v100(**LORA), sparse(), gpus),
    Case("route-adapters", None, on_v100(**LORA), llama(), gpus),
    Case("route-adapters", None, on_v100(), sparse(), gpus),
    Case("route-adapters", None, config(**LORA), sparse()),
    waits(
        "route-adapters",
        "checkpoint",
        "the model's shapes are not known",
        on_v100(**LORA),
        checkpoint=NOTHING,
        machine=gpus,
    ),
]
SEVERITIES = {}
