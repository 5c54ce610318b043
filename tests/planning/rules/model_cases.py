"""Cases of rules about attention, weights and drafts: see rule_cases."""

from dataclasses import replace

import cases
from rule_cases import Case, waits

from toolkit.planning.plan import Severity

config, on_v100, llama, hybrid, sparse, tensors = (
    cases.config,
    cases.on_v100,
    cases.llama,
    cases.hybrid,
    cases.sparse,
    cases.tensors,
)
gpus = cases.gpu_machine()
NOTHING = cases.facts(config={})
E4M3, E5M2 = {"kv__dtype": "fp8_e4m3"}, {"kv__dtype": "fp8_e5m2"}
MTP, DFLASH2 = (
    {"speculative__method": "mtp", "speculative__tokens": 3},
    {"speculative__method": "dflash2", "speculative__tokens": 7, "speculative__draft_path": "/draft"},
)
KV_FP8 = {"num_bits": 8, "type": "float", "dynamic": False}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}


def quantised(intermediate_size=1536, **settings):
    container = {"quant_method": "compressed-tensors", **settings}
    return llama(quantization_config=container, intermediate_size=intermediate_size)


def group(bits, kind, strategy="group", size=16, **more):
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": size, **more}
    return {"config_groups": {"group_0": {"weights": weights}}}


def with_tensors(checkpoint, **dtypes):
    return replace(checkpoint, tensors=tensors(**dtypes))


def no_shapes(rule, made):
    return waits(rule, "checkpoint", "the model's shapes are not known", made, checkpoint=NOTHING, machine=gpus)


def no_tensors(rule, where, made, checkpoint):
    fact = "the checkpoint's tensors are not here to be looked at"
    return waits(rule, where, fact, made, checkpoint=checkpoint, machine=gpus)


def scales(*layers, kinds="kv", head="model.layers."):
    return {f"{head}{layer}.self_attn.{kind}_scale".replace(".", "__"): "F32" for layer in layers for kind in kinds}


def some(whole, scaled, **more):
    return Case(
        "kv-scales-missing",
        (
            "checkpoint",
            f"{whole} of 4 attention layers have both KV scales; the others would take 1.0",
            "choose an overlay that has them all, or set overlay.strict=false",
        ),
        config(**E4M3),
        with_tensors(llama(), **scaled, **more),
    )


HEADS = "choose a model with one of these head sizes"
E5M2_FIX = "use kv=fp8_e4m3 or kv=float16"
NO_HEAD = "use speculative=none or ngram"
FEWER = "use a limits.tensor_parallel that divides"


def e5m2(container, checkpoint):
    why = f"the engine refuses an E5M2 cache for checkpoints written by '{container}', as they may bring KV scales"
    return Case("e5m2-with-stored-scales", ("kv.dtype", why, E5M2_FIX), config(**E5M2), checkpoint)


def listed(dtype, checkpoint, name="mtp.fc"):
    says = (
        f"{name}.weight is stored as {dtype}, and quantization_config counts it as quantised: the loader skips it, and "
        "no draft is ever accepted"
    )
    fix = f"add '{name}' to quantization_config's ignored modules in a view"
    return Case("head-quantised-by-name", ("checkpoint", says, fix), on_v100(**MTP), checkpoint, gpus)


CASES = [
    *(
        Case(
            "head-size-without-kernel",
            ("checkpoint", f"heads have {dim} elements, and SM70 attention is made for 64, 128, 256", HEADS),
            on_v100(),
            llama(head_dim=dim),
            gpus,
        )
        for dim in (63, 80, 257, 512)
    ),
    *(Case("head-size-without-kernel", None, on_v100(), llama(head_dim=dim), gpus) for dim in (64, 128, 256)),
    Case("head-size-without-kernel", None, config(), llama(head_dim=80)),
    Case(
        "head-size-without-kernel",
        ("checkpoint", "heads have 512 elements, and SM70 attention is made for 64, 128, 256", HEADS),
        on_v100(),
        llama(head_dim=256, global_head_dim=512),
        gpus,
    ),
    *(
        Case("head-size-without-kernel", None, on_v100(), llama(head_dim=128, global_head_dim=wide), gpus)
        for wide in (256, True, [512], "512", None)
    ),
    *(
        Case(
            "recurrent-head-without-kernel",
            (
                "checkpoint",
                f"recurrent keys have {size} elements, and the kernels take 256 at most",
                "choose another model",
            ),
            on_v100(),
            hybrid(linear_key_head_dim=size),
            gpus,
        )
        for size in (257, 512)
    ),
    *(
        waits(
            "recurrent-head-without-kernel",
            "checkpoint",
            f"recurrent heads of {keys} and {values} elements were not compiled for sm_70, and may need more than "
            "96 KiB of shared memory",
            on_v100(),
            checkpoint=hybrid(linear_key_head_dim=keys, linear_value_head_dim=values),
            machine=gpus,
        )
        for keys, values in ((256, 128), (128, 256), (64, 64))
    ),
    Case("recurrent-head-without-kernel", None, on_v100(), hybrid(), gpus),
    Case("recurrent-head-without-kernel", None, on_v100(), llama(), gpus),
    Case("recurrent-head-without-kernel", None, config(), hybrid(linear_key_head_dim=512)),
    no_shapes("recurrent-head-without-kernel", on_v100()),
    Case(
        "experts-without-kernel",
        ("checkpoint", "the model has 4,097 experts, and the kernels sort by 4,096 at most", "choose another model"),
        on_v100(),
        sparse(num_experts=4097),
        gpus,
    ),
    Case("experts-without-kernel", None, on_v100(), sparse(num_experts=4096), gpus),
    Case("experts-without-kernel", None, on_v100(), llama(), gpus),
    Case("experts-without-kernel", None, config(), sparse(num_experts=4097)),
    no_shapes("experts-without-kernel", on_v100()),
    no_shapes("head-size-without-kernel", on_v100()),
    Case(
        "latent-attention",
        (
            "checkpoint",
            "the model has multi-head latent attention, whose decoding overflows a V100's shared memory",
            "choose a model with grouped-query attention",
        ),
        on_v100(),
        llama(kv_lora_rank=512),
        gpus,
    ),
    Case("latent-attention", None, on_v100(), llama(), gpus),
    Case("latent-attention", None, config(), llama(kv_lora_rank=512)),
    Case(
        "kv-follows-checkpoint",
        (
            "kv.dtype",
            "the checkpoint has a KV cache scheme, and the engine would take FP8 for a 16-bit cache",
            "use kv=fp8_e4m3, for which the checkpoint was calibrated",
        ),
        config(),
        quantised(kv_cache_scheme=KV_FP8),
    ),
    Case("kv-follows-checkpoint", None, config(), quantised(kv_cache_scheme={"num_bits": 8, "type": "int"})),
    Case("kv-follows-checkpoint", None, config(), llama()),
    Case("kv-follows-checkpoint", None, config(**E4M3), quantised(kv_cache_scheme=KV_FP8)),
    no_shapes("kv-follows-checkpoint", config()),
    e5m2("compressed-tensors", quantised(kv_cache_scheme=KV_FP8)),
    e5m2("modelopt", llama(quantization_config=MODELOPT)),
    e5m2("fp8", llama(quantization_config={"quant_method": "fp8"})),
    *(
        Case("e5m2-with-stored-scales", None, config(**E5M2), made)
        for made in (llama(), quantised(**group(4, "float")), llama(quantization_config={"quant_method": "awq"}))
    ),
    Case("e5m2-with-stored-scales", None, config(**E4M3), quantised(kv_cache_scheme=KV_FP8)),
    no_shapes("e5m2-with-stored-scales", config(**E5M2)),
    some(3, scales(0, 1, 2)),
    some(3, scales(0, 1, 2), **scales(0, head="mtp.layers.")),
    some(3, scales(0, 1, 2), **scales(3, kinds="k")),
    some(0, scales(0, head="mtp.layers.")),
    *(
        Case("kv-scales-missing", None, config(**E4M3, **changes), with_tensors(llama(), **scaled))
        for changes, scaled in (
            ({}, scales(0, 1, 2, 3)),
            ({}, {"other": "F32"}),
            ({"overlay__strict": False}, scales(0)),
            ({"overlay__name": "mine"}, scales(0)),
        )
    ),
    Case("kv-scales-missing", None, config(**E5M2), with_tensors(llama(), **scales(0))),
    no_shapes("kv-scales-missing", config(**E4M3)),
    no_tensors("kv-scales-missing", "kv.dtype", config(**E4M3), llama()),
    Case(
        "kv-unit-scales",
        ("kv.dtype", "the checkpoint has no KV scales, so an E4M3 cache takes 1.0 and clips at 448", ""),
        config(**E4M3),
        with_tensors(llama(), other="F16"),
    ),
    Case("kv-unit-scales", None, config(**E4M3), with_tensors(llama(), **scales(0))),
    Case("kv-unit-scales", None, config(**E4M3, overlay__name="mine"), with_tensors(llama(), other="F16")),
    Case("kv-unit-scales", None, config(**E5M2), with_tensors(llama(), other="F16")),
    Case("kv-unit-scales", None, config(**E4M3)),  # kv-scales-missing says that the tensors are not known
    *(
        Case(
            "overlay-unused",
            (
                "overlay",
                f"the scales of 'mine' are for E4M3, and a {dtype} cache does not read them",
                "use kv=fp8_e4m3 or overlay=none",
            ),
            config(overlay__name="mine", kv__dtype=dtype),
        )
        for dtype in ("fp8_e5m2", "float16")
    ),
    Case("overlay-unused", None, config(overlay__name="mine", **E4M3)),
    Case("overlay-unused", None, config(**E5M2)),
    Case(
        "format-without-kernel",
        (
            "checkpoint",
            "its weights are int8_channel, and compute capability 7.0 has no INT8 tensor products",
            "use a checkpoint in 16 bits, FP8, NVFP4 or 4-bit integers",
        ),
        on_v100(),
        quantised(**group(8, "int", "channel")),
        gpus,
    ),
    Case(
        "format-without-kernel",
        (
            "checkpoint",
            "its weights are nvfp4, and the CPU engine has no product for 4-bit floats",
            "use a checkpoint in 16 bits, or engine=v100",
        ),
        config(),
        quantised(
            config_groups={
                "a": group(4, "float")["config_groups"]["group_0"],
                "b": group(4, "int")["config_groups"]["group_0"],
            }
        ),
    ),
    Case("format-without-kernel", None, on_v100(), quantised(**group(4, "float")), gpus),
    Case("format-without-kernel", None, config(), quantised(**group(8, "int", "channel"))),
    Case("format-without-kernel", None, config(), llama()),
    no_shapes("format-without-kernel", config()),
    Case(
        "format-unknown",
        (
            "checkpoint",
            "not checked, as GGUF weights are not known to be served right",
            "convert them to safetensors",
        ),
        config(),
        llama(quantization_config={"quant_method": "gguf"}),
    ),
    Case(
        "format-unknown",
        ("checkpoint", "not checked, as the weight format 'quip' is not known", ""),
        config(),
        llama(quantization_config={"quant_method": "quip"}),
    ),
    Case(
        "format-unknown",
        ("checkpoint", "not checked, as the weight format 'compressed-tensors' is not known", ""),
        config(),
        quantised(
            config_groups={
                "a": group(4, "int")["config_groups"]["group_0"],
                "b": group(3, "int")["config_groups"]["group_0"],
            }
        ),
    ),
    *(Case("format-unknown", None, config(), made) for made in (llama(), quantised(**group(4, "int")), NOTHING)),
    *(
        Case(
            "widths-not-divisible",
            ("limits.tensor_parallel", f"{what} does not divide over {ranks} ranks", f"{FEWER} it"),
            on_v100(limits__tensor_parallel=ranks),
            checkpoint,
            gpus,
        )
        for what, ranks, checkpoint in (
            ("a feed-forward layer of 1,536 columns", 5, llama()),
            ("an expert of 640 columns", 3, sparse(shared_expert_intermediate_size=0)),
            ("the shared expert of 642 columns", 4, sparse(shared_expert_intermediate_size=642)),
        )
    ),
    Case("widths-not-divisible", None, on_v100(limits__tensor_parallel=3), llama(), gpus),
    Case("widths-not-divisible", None, on_v100(), sparse(), gpus),
    no_shapes("widths-not-divisible", on_v100()),
    *(
        Case(
            "recurrent-heads-not-divisible",
            ("limits.tensor_parallel", f"{says} heads do not divide over {ranks} ranks", f"{FEWER} them"),
            on_v100(limits__tensor_parallel=ranks),
            hybrid(linear_num_value_heads=values),
            gpus,
        )
        for says, ranks, values in (("16 recurrent key", 3, 48), ("50 recurrent value", 4, 50))
    ),
    Case("recurrent-heads-not-divisible", None, on_v100(), hybrid(), gpus),
    Case("recurrent-heads-not-divisible", None, on_v100(limits__tensor_parallel=7), llama(), gpus),
    no_shapes("recurrent-heads-not-divisible", on_v100()),
    *(
        Case(
            "scales-not-divisible",
            (
                "limits.tensor_parallel",
                (
                    f"a rank's {columns} input columns of {name} are no multiple of {size}, the weights that share a "
                    "scale"
                ),
                "use a smaller limits.tensor_parallel",
            ),
            on_v100(limits__tensor_parallel=4),
            checkpoint,
            gpus,
        )
        for columns, name, size, checkpoint in (
            ("400", "mlp.down_proj", 96, quantised(**group(4, "int", size=96), intermediate_size=1600)),
            ("192", "self_attn.o_proj", 128, quantised(**group(8, "float", "block", block_structure=[64, 128]))),
        )
    ),
    *(
        Case("scales-not-divisible", None, on_v100(limits__tensor_parallel=ranks), checkpoint, gpus)
        for ranks, checkpoint in (
            (4, quantised(**group(4, "int", size=64))),
            (2, quantised(**group(8, "float", "block", block_structure=[256, 128]))),
            (4, quantised(**group(8, "float", "channel", size=None))),
            (5, quantised(**group(4, "int", size=128))),
            (4, llama()),
            (4, sparse()),
        )
    ),
    no_shapes("scales-not-divisible", on_v100()),
    Case(
        "head-missing",
        ("speculative", "config.json names no layer of a next-token head", NO_HEAD),
        on_v100(**MTP),
        llama(),
        gpus,
    ),
    Case(
        "head-missing",
        ("speculative", "the checkpoint's files hold no next-token head", NO_HEAD),
        on_v100(**MTP),
        with_tensors(hybrid(), model__norm__weight="BF16"),
        gpus,
    ),
    Case("head-missing", None, on_v100(**MTP), with_tensors(hybrid(), mtp__fc__weight="BF16", a="BF16"), gpus),
    no_tensors("head-missing", "speculative", on_v100(**MTP), hybrid()),
    Case("head-missing", None, on_v100(speculative__method="ngram"), llama(), gpus),
    no_shapes("head-missing", on_v100(**MTP)),
    *(listed(dtype, with_tensors(hybrid(), mtp__fc__weight=dtype)) for dtype in ("BF16", "F16", "F32")),
    listed("F16", with_tensors(hybrid(), model__mtp__fc__weight="F16", xmtp__fc__weight="F16"), "model.mtp.fc"),
    *(
        Case(
            "head-quantised-by-name",
            None,
            on_v100(**MTP),
            with_tensors(hybrid(quantization_config={**MODELOPT, "ignore": [pattern]}), mtp__fc__weight="BF16"),
            gpus,
        )
        for pattern in ("mtp.fc", "mtp*", "mtp", "re:.*fc$")
    ),
    *(
        listed("BF16", with_tensors(hybrid(quantization_config={**MODELOPT, "ignore": [p]}), mtp__fc__weight="BF16"))
        for p in ("lm_head", "mtp.f", "re:fc", "m")
    ),
    Case("head-quantised-by-name", None, on_v100(**MTP), with_tensors(hybrid(), mtp__fc__weight="U8"), gpus),
    Case("head-quantised-by-name", None, on_v100(**MTP), with_tensors(hybrid(), mtp__fc__bias="BF16"), gpus),
    Case("head-quantised-by-name", None, on_v100(**MTP), with_tensors(llama(), mtp__fc__weight="BF16"), gpus),
    Case("head-quantised-by-name", None, on_v100(), with_tensors(hybrid(), mtp__fc__weight="BF16"), gpus),
    no_shapes("head-quantised-by-name", on_v100(**MTP)),
    no_tensors("head-quantised-by-name", "speculative", on_v100(**MTP), hybrid()),
    Case(
        "draft-model-missing",
        ("speculative", "no draft model is named", "choose speculative=dflash2, or set speculative.draft_path"),
        on_v100(**{**DFLASH2, "speculative__draft_path": None}),
        machine=gpus,
    ),
    Case("draft-model-missing", None, on_v100(**DFLASH2), machine=gpus),
    Case(
        "draft-model-missing",
        ("speculative", "no draft model is named", "set speculative.draft_path"),
        on_v100(speculative__method="draft_model", speculative__tokens=3),
        machine=gpus,
    ),
    Case(
        "draft-model-missing",
        None,
        on_v100(**{**DFLASH2, "speculative__draft_path": None, "speculative__draft_repository": "a/b"}),
        machine=gpus,
    ),
    Case("draft-model-missing", None, on_v100(**MTP), machine=gpus),
    *(
        Case(
            "output-head-quantised",
            (
                "checkpoint",
                f"{name} is stored as {dtype}, and DFlash2 needs an output head that is not quantised",
                "use speculative=mtp3 or none, or a checkpoint whose output head has 16 bits",
            ),
            on_v100(**DFLASH2),
            with_tensors(hybrid(), **{name.replace(".", "__"): dtype}, other__weight="U8"),
            gpus,
        )
        for name, dtype in (("lm_head.weight", "U8"), ("model.lm_head.weight", "F8_E4M3"))
    ),
    *(
        Case("output-head-quantised", None, on_v100(**DFLASH2), with_tensors(hybrid(), lm_head__weight=dtype), gpus)
        for dtype in ("BF16", "F16", "F32")
    ),
    Case("output-head-quantised", None, on_v100(**DFLASH2), with_tensors(llama(), lm_head__weight="U8"), gpus),
    Case("output-head-quantised", None, on_v100(**MTP), with_tensors(hybrid(), lm_head__weight="U8"), gpus),
    no_shapes("output-head-quantised", on_v100(**DFLASH2)),
    no_tensors("output-head-quantised", "speculative", on_v100(**DFLASH2), hybrid()),
    *(
        Case(
            "drafts-past-window",
            (
                "limits.max_model_len",
                f"drafts of the last {over} tokens of a full context lie past the model's 8,192 positions",
                "",
            ),
            config(speculative__method="ngram", speculative__tokens=3, limits__max_model_len=asked),
        )
        for asked, over in ((8192, 3), (8190, 1))
    ),
    *(
        Case("drafts-past-window", None, made)
        for made in (
            config(speculative__method="ngram", speculative__tokens=3, limits__max_model_len=8189),
            config(speculative__method="ngram", speculative__tokens=3, limits__max_model_len=8193),
            config(speculative__method="none", speculative__tokens=3, limits__max_model_len=8192),
        )
    ),
    Case("drafts-past-window", None, config(speculative__method="ngram"), llama(max_position_embeddings=None)),
    no_shapes("drafts-past-window", config(speculative__method="ngram", speculative__tokens=1)),
]
SEVERITIES = {
    "kv-unit-scales": Severity.info,
    "overlay-unused": Severity.warn,
    "format-unknown": Severity.unchecked,
    "drafts-past-window": Severity.info,
}
