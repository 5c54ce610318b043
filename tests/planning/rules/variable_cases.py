"""Cases of rules about variables, and about arguments that drafts do not go with: see rule_cases."""

import cases
from rule_cases import Case

config, on_v100, gpus = cases.config, cases.on_v100, cases.gpu_machine()
VARIABLE, PROCESSORS = "variable-against-plan", "drafts-with-processors"
NGRAM = {"speculative__method": "ngram", "speculative__tokens": 3}
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
]
SEVERITIES = {}
