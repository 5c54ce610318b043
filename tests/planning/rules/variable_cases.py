"""Cases of rules about variables, and about what drafts do not go with: see rule_cases."""

import cases
from rule_cases import Case, waits

config, on_v100, gpus = cases.config, cases.on_v100, cases.gpu_machine()
VARIABLE, PROCESSORS, STATES = "variable-against-plan", "drafts-with-processors", "drafts-with-states-on-cpu"
DTYPE = "recurrent-dtype-on-cpu"
NGRAM = {"speculative__method": "ngram", "speculative__tokens": 3}
MTP = {"speculative__method": "mtp", "speculative__tokens": 3}
ENDS = (
    "limits.prefix_caching",
    "the CPU engine ends at the first request: it cannot keep recurrent states for prefixes beside drafts",
    "set limits.prefix_caching=false, or speculative=none",
)
REFUSED = (
    "engine.extra_arguments",
    "the engine takes no --logits-processors together with drafts",
    "use speculative=none, or leave --logits-processors out",
)


def says(name, value, reason):
    return (f"engine.environment.{name}", f"{name}={value} {reason}", f"leave {name} out")


def with_processors(**changes):
    return config(engine__extra_arguments=["--logits-processors", "mine:Processor"], **changes)


CASES = [
    *(
        Case(VARIABLE, says(name, value, reason), made(engine__environment={"A": "b", name: value}), machine=gpus)
        for made, name, value, reason in (
            (config, "VLLM_PLUGINS", "", "keeps our plugin out of the engine"),
            (on_v100, "VLLM_PLUGINS", "other,voltage", "keeps our plugin out of the engine"),
            (
                config,
                "VOLTA_PLATFORM",
                "any",
                "is for the plan to set: engine.prove_on_any_gpu says which GPUs may be taken",
            ),
            (
                on_v100,
                "VLLM_TARGET_DEVICE",
                "cpu",
                "makes the engine take the CPU, whatever its plugins say",
            ),
            (
                on_v100,
                "VLLM_USE_FLASHINFER_SAMPLER",
                "1",
                "asks for FlashInfer's sampler, which has no code for sm_70",
            ),
        )
    ),
    *(
        Case(VARIABLE, None, made(engine__environment={name: value}), machine=gpus)
        for made, name, value in (
            (on_v100, "VLLM_PLUGINS", "other,volta"),
            (on_v100, "VLLM_TARGET_DEVICE", "cuda"),
            (on_v100, "VLLM_USE_FLASHINFER_SAMPLER", "0"),
            (config, "VLLM_TARGET_DEVICE", "cpu"),
            (config, "VLLM_USE_FLASHINFER_SAMPLER", "1"),
        )
    ),
    Case(PROCESSORS, REFUSED, with_processors(**NGRAM)),
    Case(PROCESSORS, None, with_processors()),
    Case(PROCESSORS, None, config(**NGRAM)),
    *(
        Case(STATES, ENDS, config(engine__extra_arguments=arguments, **drafts), cases.hybrid())
        for drafts in (NGRAM, MTP)
        for arguments in ([], ["--mamba-cache-mode=align"])
    ),
    Case(STATES, None, config(limits__prefix_caching=False, **MTP), cases.hybrid()),
    Case(STATES, None, config(engine__extra_arguments=["--mamba-cache-mode=none"], **MTP), cases.hybrid()),
    Case(STATES, None, config(), cases.hybrid()),
    Case(STATES, None, config(**NGRAM)),
    Case(STATES, None, on_v100(**MTP), cases.hybrid(), gpus),
    *(
        Case(
            DTYPE,
            (
                "engine.dtype",
                f"in {dtype} the CPU engine ends at the first request: it has gated delta nets for bfloat16 alone",
                "set engine.dtype=bfloat16 and kv=fp8_e4m3",
            ),
            config(engine__dtype=dtype),
            cases.hybrid(),
        )
        for dtype in ("float16", "float32")
    ),
    Case(DTYPE, None, config(engine__dtype="bfloat16"), cases.hybrid()),
    Case(DTYPE, None, config()),
    Case(DTYPE, None, on_v100(), cases.hybrid(), gpus),
    waits(DTYPE, "checkpoint", "the model's shapes are not known", config(), checkpoint=cases.facts(config={})),
    waits(
        STATES,
        "checkpoint",
        "the model's shapes are not known",
        config(**NGRAM),
        checkpoint=cases.facts(config={}),
    ),
]
SEVERITIES = {}
