"""Cases of the rules about arguments that the plan knows nothing of: see rule_cases."""

import cases
from rule_cases import Case, waits

config, on_v100 = cases.config, cases.on_v100
WHERE = "engine.extra_arguments"
UNKNOWN, PROMPTS, REPLICAS, STAGES, FORMAT, CHAT = (
    "argument-unknown",
    "prompts-in-one-step",
    "replicas-unplanned",
    "stages-on-cpu",
    "quantised-at-start",
    "no-chat-server",
)
WHOLE = "--no-enable-chunked-prefill"
NVFP4 = cases.llama(quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"})
AWQ = cases.llama(quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128})


def given(*words, made=config, **changes):
    return made(engine__extra_arguments=list(words), **changes)


def steps(batched, longest, *words):
    return given(*words, limits__max_num_batched_tokens=batched, limits__max_model_len=longest)


def breaks(rule, message, fix, made, **more):
    return Case(rule, (WHERE, message, fix), made, **more)


CASES = [
    breaks(
        UNKNOWN,
        "vLLM 0.32.0 has no argument --no-such-argument",
        "leave --no-such-argument out",
        given("--no-such-argument"),
    ),
    breaks(
        UNKNOWN,
        "vLLM 0.32.0 has no argument --kv_ofloading_size",
        "did you mean --kv-offloading-size?",
        given("--seed=1", "--kv_ofloading_size=3", made=on_v100),
        machine=cases.gpu_machine(),
    ),
    breaks(UNKNOWN, "vLLM 0.32.0 has no argument -x", "leave -x out", given("-x", "1")),
    Case(UNKNOWN, None, given("--max_logprobs", "-1", "--no-enable-sleep-mode", "-O3", "--language-model", "file")),
    Case(UNKNOWN, None, config()),
    Case(
        PROMPTS,
        (
            "limits.max_num_batched_tokens",
            f"2,047 tokens a step hold no prompt of 2,048, and {WHOLE} allows no chunks",
            f"use limits.max_num_batched_tokens=2048, or leave {WHOLE} out",
        ),
        steps(2047, 2048, WHOLE),
    ),
    Case(PROMPTS, None, steps(2048, 2048, WHOLE)),
    Case(PROMPTS, None, steps(512, 2048)),
    *(
        breaks(
            REPLICAS,
            "2 replicas would be started, and the plan is made for one",
            "leave --data-parallel-size out, and serve each replica by itself, on a port of its own",
            given(*words),
        )
        for words in (("--data-parallel-size=2",), ("-dp", "2"), ("--data_parallel_size", "2"))
    ),
    Case(REPLICAS, None, given("--data-parallel-size=1")),
    Case(REPLICAS, None, config()),
    breaks(
        STAGES,
        "the CPU engine does not answer with 2 pipeline stages",
        "leave --pipeline-parallel-size out, or use limits.tensor_parallel",
        given("-pp", "2"),
    ),
    Case(STAGES, None, given("-pp", "2", made=on_v100), machine=cases.gpu_machine()),
    Case(STAGES, None, given("-pp", "1")),
    Case(STAGES, None, config()),
    *(
        breaks(
            FORMAT,
            f"engine={engine} cannot quantise weights to fp8 at its start",
            "leave --quantization out, and choose a checkpoint that is stored as it is to be served",
            given("-q", "fp8", made=made),
            checkpoint=checkpoint,
            machine=cases.gpu_machine(),
        )
        for engine, made, checkpoint in (
            ("cpu", config, cases.facts()),
            ("v100", on_v100, cases.facts()),
        )
    ),
    waits(
        FORMAT, "checkpoint", "the model's shapes are not known", given("-q", "fp8"), checkpoint=cases.facts(config={})
    ),
    *(Case(FORMAT, None, given("--quantization=awq", made=made), AWQ) for made in (config, on_v100)),
    Case(FORMAT, None, given("--quantization=modelopt_fp4", made=on_v100), NVFP4, machine=cases.gpu_machine()),
    Case(FORMAT, None, given("-qmodelopt"), cases.facts(files={"hf_quant_config.json": 200})),
    Case(FORMAT, None, config(), cases.facts(config={})),
    *(
        breaks(CHAT, f"{name}={asked} makes a server that answers no chat", f"leave {name} out", given(name, asked))
        for name, asked in (("--runner", "pooling"), ("--convert", "embed"))
    ),
    *(Case(CHAT, None, given(f"--runner={asked}")) for asked in ("auto", "generate")),
    *(Case(CHAT, None, given(f"--convert={asked}")) for asked in ("auto", "none")),
    Case(CHAT, None, config()),
]
MODES = (
    "auto or cohere or deepseek_v32 or deepseek_v4 or deepseek_v41 or hf or inkling or kimi_audio or kimi_k3 or mistral"
)
CASES += [
    breaks(
        "tokenizer-unknown",
        "vLLM 0.32.0 has no --tokenizer-mode=slow",
        f"use {MODES}, or leave it out",
        given("--tokenizer_mode", "slow"),
    ),
    Case("tokenizer-unknown", None, given("--tokenizer-mode=hf")),
    Case("tokenizer-unknown", None, config()),
    breaks(
        "offload-on-cpu",
        "the CPU engine ends at its start with --kv-offloading-size",
        "leave --kv-offloading-size out, and set limits.kv_cache_memory_bytes for a larger cache",
        given("--kv-offloading-size=1"),
    ),
    Case("offload-on-cpu", None, given("--kv-offloading-size=1", made=on_v100), machine=cases.gpu_machine()),
    Case("offload-on-cpu", None, config()),
    Case(
        "hidden-not-divisible",
        (
            "checkpoint",
            "a hidden size of 768 is no multiple of 7 attention heads, which a Llama's must be",
            "use the config.json that was published with the checkpoint",
        ),
        config(),
        cases.llama(num_attention_heads=7),
    ),
    Case("hidden-not-divisible", None, config(), cases.llama(num_attention_heads=7, model_type="qwen3")),
    *(
        Case("hidden-not-divisible", None, config(), cases.llama(**{key: value}))
        for key in ("num_attention_heads", "hidden_size")
        for value in (None, "7", 0, 1536)
        if (key, value) != ("num_attention_heads", 1536)
    ),
    Case("hidden-not-divisible", None, config(), cases.llama(num_attention_heads=1)),
]
CASES += [
    *(
        breaks(
            "proof-prevented",
            f"--logprobs-mode={mode} gives no log-probabilities, by which serve tells an answer from noise",
            "leave --logprobs-mode out",
            given("--logprobs-mode", mode),
        )
        for mode in ("raw_logits", "processed_logits")
    ),
    *(
        breaks(
            "proof-prevented",
            "serve asks its server over plain HTTP",
            "leave --ssl-... out, and put a proxy in front of the server",
            given(f"--ssl-{name}=/file"),
        )
        for name in ("keyfile", "certfile")
    ),
    *(
        breaks("proof-prevented", f"{name} starts no server that answers over HTTP", f"leave {name} out", given(name))
        for name in ("--help", "-h", "--headless", "--grpc")
    ),
    Case("proof-prevented", None, given("--grpc-port=1")),
    *(
        Case(
            "proof-prevented",
            (
                "limits.max_model_len",
                f"{length} of context hold no question beside the 64 tokens of its answer",
                "use limits.max_model_len=128 or more",
            ),
            config(limits__max_model_len=tokens),
        )
        for tokens, length in ((1, "1 token"), (64, "64 tokens"))
    ),
    *(Case("proof-prevented", None, config(limits__max_model_len=tokens)) for tokens in (0, 65)),
    *(Case("proof-prevented", None, given(f"--logprobs-mode={kind}_logprobs")) for kind in ("raw", "processed")),
    Case("proof-prevented", None, config()),
    breaks(
        "sleep-on-cpu",
        "the CPU engine ends at its start with --enable-sleep-mode",
        "leave --enable-sleep-mode out",
        given("--enable-sleep-mode"),
    ),
    Case("sleep-on-cpu", None, given("--enable-sleep-mode", made=on_v100), machine=cases.gpu_machine()),
    Case("sleep-on-cpu", None, config()),
]
SEVERITIES = {}
