"""Cases of rules about sizes, element types, the division over GPUs, and switches: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.config.schema.views import ScaleValues
from toolkit.planning.plan import Severity

config, on_v100, llama, machine, gpus = cases.config, cases.on_v100, cases.llama, cases.machine, cases.gpu_machine
DRAFTING = ("none", "mtp", "dflash2", "draft_model", "ngram")
XQA = "VLLM_FLASH_V100_DECODE_USE_XQA"
CHOOSE_KV = "choose kv=float16 or fp8_e4m3 or fp8_e5m2"

CASES = [
    Case(
        "scales-without-fp8",
        ("overlay", "KV scales are given, and a float16 cache uses none", "set kv=fp8_e4m3, or overlay=none"),
        config(overlay__path="/packs/mine"),
    ),
    Case(
        "scales-without-fp8",
        ("views.scales", "KV scales are given, and a float16 cache uses none", "set kv=fp8_e4m3, or overlay=none"),
        config(views__scales=ScaleValues.unit),
    ),
    Case("scales-without-fp8", None, config(overlay__name="mine", kv__dtype="fp8_e4m3")),
    Case("scales-without-fp8", None, config(overlay__name="none")),
    *(
        Case(
            "sizes-positive",
            (key.replace("__", "."), f"{size} is not a size", f"use {key.replace('__', '.')}=1 or more"),
            config(**{key: size}),
        )
        for size in (0, -1)
        for key in (
            "limits__max_model_len",
            "limits__max_num_seqs",
            "limits__max_num_batched_tokens",
            "limits__tensor_parallel",
            "limits__kv_cache_memory_bytes",
            "limits__block_size",
            "dcp__size",
            "dcp__interleave",
        )
    ),
    Case(
        "sizes-positive",
        ("speculative.tokens", "0 is not a size", "use speculative.tokens=1 or more"),
        config(speculative__method="ngram", speculative__tokens=0),
    ),
    Case("sizes-positive", None, config(limits__max_num_seqs=1, limits__block_size=1, limits__tensor_parallel=1)),
    Case("sizes-positive", None, config(speculative__method="none", speculative__tokens=0)),
    Case("sizes-positive", None, config(speculative__method="ngram", speculative__tokens=1)),
    *(
        Case(
            "utilization-range",
            (
                "limits.gpu_memory_utilization",
                f"{share} is no share of a memory",
                "use limits.gpu_memory_utilization=0.9, or 0.1 to 1.0",
            ),
            config(limits__gpu_memory_utilization=share),
        )
        for share in (0.0, -0.5, 1.01, float("nan"), float("inf"))
    ),
    Case("utilization-range", None, config(limits__gpu_memory_utilization=1.0)),
    Case("utilization-range", None, config(limits__gpu_memory_utilization=0.01)),
    *(
        Case(
            "timeouts-positive",
            (f"engine.{name}", f"{seconds} seconds is no time to wait", f"use engine.{name}=1 to 604800"),
            config(**{f"engine__{name}": seconds}),
        )
        for name in ("start_timeout_s", "stop_timeout_s")
        for seconds in (0.0, -1.0, float("nan"), 604801.0, float("inf"))
    ),
    Case("timeouts-positive", None, config(engine__start_timeout_s=0.5, engine__stop_timeout_s=604800.0)),
    Case(
        "batch-below-requests",
        (
            "limits.max_num_batched_tokens",
            "7 tokens a step are fewer than the 8 requests",
            "use limits.max_num_batched_tokens=8 or more",
        ),
        config(limits__max_num_batched_tokens=7, limits__max_num_seqs=8),
    ),
    Case("batch-below-requests", None, config(limits__max_num_batched_tokens=8, limits__max_num_seqs=8)),
    Case(
        "speculative-unknown",
        (
            "speculative.method",
            "'eagle' is no way of drafting",
            f"choose speculative.method={' or '.join(DRAFTING)}",
        ),
        config(speculative__method="eagle"),
    ),
    *(Case("speculative-unknown", None, config(speculative__method=m)) for m in DRAFTING),
    *(
        Case(
            "port-out-of-range",
            ("server.port", f"{port} is no TCP port", "use server.port=8000, or another from 1024 to 65535"),
            config(server__port=port),
        )
        for port in (-1, 0, 65536)
    ),
    *(Case("port-out-of-range", None, config(server__port=port)) for port in (1, 8000, 65535)),
    Case(
        "kv-dtype-ambiguous",
        (
            "kv.dtype",
            (
                "fp8 does not say which format is meant: E4M3 is more precise and wants calibrated scales, "
                "E5M2 has more range and uses unit scales"
            ),
            "write kv=fp8_e4m3 or kv=fp8_e5m2",
        ),
        config(kv__dtype="fp8"),
    ),
    Case("kv-dtype-ambiguous", None, config(kv__dtype="fp8_e4m3")),
    Case("kv-dtype-ambiguous", None, config(kv__dtype="int4")),
    Case(
        "kv-dtype-unknown",
        ("kv.dtype", "'int4' is no KV dtype of these engines", CHOOSE_KV),
        config(kv__dtype="int4"),
    ),
    *(Case("kv-dtype-unknown", None, config(kv__dtype=d)) for d in ("fp8", "float16", "fp8_e4m3", "fp8_e5m2")),
    Case(
        "kv-wider-than-engine",
        ("kv.dtype", "a float16 KV cache under float32 activations has no kernel", "set engine.dtype=float16"),
        config(engine__dtype="float32"),
    ),
    Case("kv-wider-than-engine", None, config(engine__dtype="float32", kv__dtype="fp8_e4m3")),
    Case("kv-wider-than-engine", None, config(engine__dtype="float16", kv__dtype="float16")),
    Case("kv-wider-than-engine", None, config(engine__dtype="fp16", kv__dtype="float16")),
    Case("kv-wider-than-engine", None, on_v100(engine__dtype="bfloat16", kv__dtype="float16"), machine=gpus()),
    Case(
        "engine-dtype-unknown",
        ("engine.dtype", "engine=cpu cannot compute in 'int8'", "choose engine.dtype=float16 or float32 or bfloat16"),
        config(engine__dtype="int8"),
    ),
    *(
        Case(
            "engine-dtype-unknown",
            (
                "engine.dtype",
                f"engine=cpu cannot compute in '{alias}'; did you mean {meant}?",
                f"choose engine.dtype={meant}",
            ),
            config(engine__dtype=alias),
        )
        for alias, meant in (("half", "float16"), ("float", "float32"), ("fp32", "float32"), ("bf16", "bfloat16"))
    ),
    *(
        Case(
            "engine-dtype-unknown",
            ("engine.dtype", f"engine=v100 cannot compute in {says}", "choose engine.dtype=float16"),
            on_v100(engine__dtype=dtype),
            machine=gpus(),
        )
        for dtype, says in (
            ("fp16", "'fp16'; did you mean float16?"),
            ("float32", "'float32'"),
            ("bf16", "'bf16'"),
        )
    ),
    Case("engine-dtype-unknown", None, on_v100(engine__dtype="bfloat16"), machine=gpus()),
    *(Case("engine-dtype-unknown", None, config(engine__dtype=d)) for d in ("float16", "float32", "bfloat16")),
    Case(
        "bf16-on-sm70",
        (
            "engine.dtype",
            "compute capability 7.0 has no bfloat16; the engine refuses it at start",
            "set engine.dtype=float16; a bfloat16 checkpoint is cast when it is loaded",
        ),
        on_v100(engine__dtype="bfloat16"),
        machine=gpus(),
    ),
    Case("bf16-on-sm70", None, on_v100(), machine=gpus()),
    Case("bf16-on-sm70", None, config(engine__dtype="bfloat16")),
    Case(
        "heads-not-divisible",
        (
            "limits.tensor_parallel",
            "12 attention heads do not divide over 5 ranks",
            "use limits.tensor_parallel=1 or 2 or 3 or 4 or 6 or 12",
        ),
        config(limits__tensor_parallel=5),
    ),
    Case(
        "heads-not-divisible",
        (
            "limits.tensor_parallel",
            "32 attention heads do not divide over 3 ranks",
            "use limits.tensor_parallel=1 or 2 or 4 or 8 or 16",
        ),
        config(limits__tensor_parallel=3),
        cases.facts(config={"text_config": {"num_attention_heads": 32}}),
    ),
    *(Case("heads-not-divisible", None, config(limits__tensor_parallel=ranks)) for ranks in (0, 1, 2, 3, 4, 6, 12)),
    Case("heads-not-divisible", None, config(), llama(num_attention_heads=15)),
    Case(
        "heads-not-divisible",
        (
            "limits.tensor_parallel",
            "34 attention heads do not divide over 3 ranks",
            "use limits.tensor_parallel=1 or 2",
        ),
        config(limits__tensor_parallel=3),
        llama(num_attention_heads=34),
    ),
    waits(
        "heads-not-divisible",
        "limits.tensor_parallel",
        "config.json does not say how many attention heads there are",
        config(limits__tensor_parallel=5),
        checkpoint=cases.facts(config={}),
    ),
    waits(
        "kv-heads-not-divisible",
        "limits.tensor_parallel",
        "config.json does not say how many KV heads there are",
        config(limits__tensor_parallel=5),
        checkpoint=cases.facts(config={}),
    ),
    Case(
        "kv-heads-not-divisible",
        (
            "limits.tensor_parallel",
            "12 KV heads neither divide over nor repeat evenly on 5 ranks",
            "use limits.tensor_parallel=1 or 2 or 3 or 4 or 6 or 12, or a multiple of 12",
        ),
        config(limits__tensor_parallel=5),
        cases.facts(config={"num_attention_heads": 12}),
    ),
    *(
        Case(
            "kv-heads-not-divisible",
            (
                "limits.tensor_parallel",
                f"{heads} KV heads neither divide over nor repeat evenly on 5 ranks",
                f"use limits.tensor_parallel={fitting}, or a multiple of {heads}",
            ),
            config(limits__tensor_parallel=5),
            llama(num_key_value_heads=heads),
        )
        for heads, fitting in ((32, "1 or 2 or 4 or 8 or 16"), (34, "1 or 2"))
    ),
    Case(
        "kv-heads-not-divisible",
        (
            "limits.tensor_parallel",
            "4 KV heads neither divide over nor repeat evenly on 6 ranks",
            "use limits.tensor_parallel=1 or 2 or 4, or a multiple of 4",
        ),
        config(limits__tensor_parallel=6),
    ),
    Case(
        "kv-heads-not-divisible",
        (
            "limits.tensor_parallel",
            "4 KV heads neither divide over nor repeat evenly on 3 ranks",
            "use limits.tensor_parallel=1 or 2 or 4, or a multiple of 4",
        ),
        config(limits__tensor_parallel=3),
    ),
    *(Case("kv-heads-not-divisible", None, config(limits__tensor_parallel=ranks)) for ranks in (0, 1, 2, 4, 8, 12)),
    Case("kv-heads-not-divisible", None, config(), llama(num_key_value_heads=3)),
    Case("kv-heads-not-divisible", None, config(limits__tensor_parallel=3), llama(num_key_value_heads=1)),
    waits(
        "kv-heads-not-divisible",
        "limits.tensor_parallel",
        "config.json does not say how many KV heads there are",
        config(limits__tensor_parallel=3),
        checkpoint=llama(num_key_value_heads=0),
    ),
    *(
        Case(
            "dcp-needs-ranks",
            (
                "dcp.size",
                f"{dcp} ranks cannot share a cache out of {ranks} tensor-parallel ranks",
                f"use limits.tensor_parallel={dcp} or a multiple of it",
            ),
            on_v100(dcp__size=dcp, limits__tensor_parallel=ranks),
            machine=gpus(),
        )
        for dcp, ranks in ((2, 1), (2, 3), (4, 6), (8, 4))
    ),
    *(
        Case("dcp-needs-ranks", None, on_v100(dcp__size=dcp, limits__tensor_parallel=ranks), machine=gpus())
        for dcp, ranks in ((0, 1), (1, 1), (1, 3), (2, 2), (2, 4), (4, 4))
    ),
    Case(
        "dcp-on-cpu",
        ("dcp.size", "the CPU engine cannot shard a KV cache over ranks", "use dcp=1 or engine=v100"),
        config(dcp__size=2),
    ),
    Case("dcp-on-cpu", None, config(dcp__size=1)),
    Case("dcp-on-cpu", None, on_v100(dcp__size=2), machine=gpus()),
    Case(
        "switch-from-environment",
        (
            "switches.decode_xqa",
            "VLLM_FLASH_V100_DECODE_USE_XQA in the shell turns it off",
            "write switches.decode_xqa=false to keep it",
        ),
        on_v100(),
        machine=gpus(environment={XQA: "0"}),
    ),
    Case(
        "switch-from-environment",
        (
            "switches.decode_xqa",
            "VLLM_FLASH_V100_DECODE_USE_XQA in the shell turns it on",
            "write switches.decode_xqa=true to keep it",
        ),
        on_v100(),
        machine=gpus(environment={XQA: "1"}),
    ),
    Case("switch-from-environment", None, on_v100(switches__decode_xqa=True), machine=gpus(environment={XQA: "0"})),
    Case("switch-from-environment", None, on_v100(), machine=gpus(environment={XQA: "yes", "VLLM_OTHER": "1"})),
    *(
        Case(
            "switch-variable-unreadable",
            (
                XQA,
                f"'{text}' is neither 0 nor 1, so switches.decode_xqa does not take it",
                f"write switches.decode_xqa=true or false, and unset {XQA}",
            ),
            on_v100(),
            machine=gpus(environment={XQA: text}),
        )
        for text in ("true", "", "2", " 1")
    ),
    *(
        Case("switch-variable-unreadable", None, on_v100(), machine=gpus(environment={XQA: text}))
        for text in ("0", "1")
    ),
    Case("switch-variable-unreadable", None, on_v100(), machine=gpus(environment={"VLLM_OTHER": "x"})),
    Case(
        "switch-without-route",
        (
            "switches.decode_xqa",
            "it is on, and engine=cpu has no such route",
            "leave it to its default, or use engine=v100",
        ),
        config(switches__decode_xqa=True),
    ),
    Case("switch-without-route", None, config(switches__decode_xqa=False)),
    Case("switch-without-route", None, on_v100(switches__decode_xqa=True), machine=gpus()),
]
SEVERITIES = {
    "switch-from-environment": Severity.info,
    "switch-variable-unreadable": Severity.warn,
    "switch-without-route": Severity.warn,
}
