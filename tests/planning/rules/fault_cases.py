"""Cases of rules about releases that are known to do wrong: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.machine.facts import Copy
from toolkit.planning.plan import Severity

config, on_v100, gpus, software, llama, hybrid = (
    cases.config,
    cases.on_v100,
    cases.gpu_machine,
    cases.software,
    cases.llama,
    cases.hybrid,
)
NOTHING = cases.facts(config={})
AWQ = llama(quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128})
INT4, INT8 = (
    llama(
        head_dim=256,
        quantization_config={
            "quant_method": "compressed-tensors",
            "format": "pack-quantized" if bits == 4 else "int-quantized",
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {
                        "num_bits": bits,
                        "type": "int",
                        "strategy": "group" if bits == 4 else "channel",
                        "group_size": 128 if bits == 4 else None,
                        "symmetric": True,
                    },
                }
            },
        },
    )
    for bits in (4, 8)
)
WIDE, HALF, NARROW = (llama(head_dim=size) for size in (256, 128, 64))
MTP = {"speculative__method": "mtp", "speculative__tokens": 3}
OFFLOAD = {"engine__extra_arguments": ["--kv-offloading-size=8"]}
ALONE = {"limits__prefix_caching": False}
WRONG, FAULT = "known-wrong-output", "known-fault"
NEWER = "use 1cat-vllm 1.5.0 or newer"


def has(*releases):
    """Four V100s with these packages, NAME==VERSION."""
    copies = (Copy(*release.split("=="), "/engine/site") for release in releases)
    return gpus(software=software(distributions=tuple(copies)))


FORK, MENDED = has("torch==2.10.0", "1cat-vllm==1.3.0"), has("1cat-vllm==1.5.0")
AWQ_WRONG = (
    "1cat-vllm",
    (
        "1.3.0 gives wrong output with AWQ weights: the classic AWQ kernels return values that were never computed "
        "(1CatAI/1Cat-vLLM pull requests 204 and 221)"
    ),
    NEWER,
)
STATES_WRONG = (
    "1cat-vllm",
    (
        "1.3.0 gives wrong output with recurrent states and KV offload: a prefix that is loaded back may bring "
        "another position's state (1CatAI/1Cat-vLLM pull requests 247 and 249)"
    ),
    NEWER,
)


def fault(version, when, what, reference, *, package="1cat-vllm", mended="1.5.0"):
    return (
        package,
        f"{version} has a known fault that shows {when}: {what} ({reference})",
        f"use {package} {mended} or newer",
    )


JOINS = fault(
    "1.2.2",
    "with drafts of the model's own head",
    "a sampled request that joins greedy ones ends the engine",
    "1CatAI/1Cat-vLLM pull request 230",
)
IMAGES = fault(
    "1.4.9",
    "with models that take images",
    "a full cache of images never stops evicting, and the server hangs while /health answers",
    "1CatAI/1Cat-vLLM pull request 261; vllm-project/vllm issue 43941",
)
RACE = fault(
    "1.3.0",
    "with heads of other than 256 elements",
    "paged prefill has a race in shared memory",
    "1CatAI/1Cat-vLLM pull request 202",
)
JITTER = fault(
    "1.2.0",
    "with heads of 128 elements",
    "paged prefill gives one prompt several results",
    "1CatAI/1Cat-vLLM issue 98",
    package="flash-attn-v100",
    mended="1.2.1",
)
SUM = "1CatAI/1Cat-vLLM pull request 225"
REPACK = "gptq_marlin_repack has no code for sm_70"
PREFIX = fault(
    "0.6.3.post1",
    "with prefix caching",
    "the second request with a known prefix ends the engine",
    "vllm-project/vllm issue 3944",
    package="vllm",
    mended="0.6.4",
)
SAMPLING = fault(
    "0.11.0",
    "always",
    "sampling with top-k or top-p fails",
    "vllm-project/vllm issue 27729",
    package="vllm",
    mended="0.11.1",
)


IMAGES_256 = llama(head_dim=256, architectures=["LlavaForConditionalGeneration"])


CASES = [
    Case(WRONG, AWQ_WRONG, on_v100(), AWQ, FORK),
    Case(WRONG, STATES_WRONG, on_v100(**OFFLOAD), hybrid(), FORK),
    Case(
        WRONG,
        (AWQ_WRONG[0], AWQ_WRONG[1].replace("1.3.0", "main"), NEWER),
        on_v100(),
        AWQ,
        has("1cat-vllm==main"),
    ),
    Case(WRONG, None, on_v100(), NOTHING, MENDED),
    Case(WRONG, None, on_v100(), AWQ, MENDED),
    Case(WRONG, None, on_v100(), llama(), FORK),
    Case(WRONG, None, on_v100(), hybrid(), FORK),
    Case(WRONG, None, on_v100(**OFFLOAD), llama(), FORK),
    Case(WRONG, None, config(), AWQ, FORK),
    Case(WRONG, None, config(), machine=gpus(software=None)),
    waits(
        WRONG,
        "packages",
        "the installed packages were not looked at",
        on_v100(),
        fix="run toolkit.doctor on the serving machine",
        machine=gpus(software=None),
    ),
    Case(FAULT, RACE, on_v100(), NARROW, FORK),
    Case(FAULT, JOINS, on_v100(**MTP), WIDE, has("1cat-vllm==1.2.2")),
    Case(FAULT, IMAGES, on_v100(), IMAGES_256, has("1cat-vllm==1.4.9")),
    Case(FAULT, JITTER, on_v100(), HALF, has("flash-attn-v100==1.2.0")),
    Case(FAULT, PREFIX, on_v100(), NARROW, has("vllm==0.6.3.post1")),
    Case(FAULT, SAMPLING, on_v100(), NARROW, has("vllm==0.11.0")),
    *(
        Case(
            FAULT,
            fault("1.2.1", "with weights of 4- or 8-bit integers", REPACK, "1CatAI/1Cat-vLLM issue 87", mended="1.2.2"),
            on_v100(),
            weights,
            has("1cat-vllm==1.2.1"),
        )
        for weights in (INT4, INT8)
    ),
    *(
        Case(FAULT, None, on_v100(**ALONE), checkpoint, has(*releases))
        for checkpoint, releases in (
            (WIDE, ("1cat-vllm==1.2.1",)),
            (WIDE, ("1cat-vllm==1.4.9", "flash-attn-v100==1.2.0")),
            (NARROW, ("1cat-vllm==1.5.0", "flash-attn-v100==1.2.0")),
            (HALF, ("flash-attn-v100==1.2.1",)),
            (INT4, ("1cat-vllm==1.2.2", "flash-attn==2.8.3")),
            (INT4, ("1cat-vllm==1.2.0",)),
            (NARROW, ("vllm==0.6.3",)),
            (NARROW, ("vllm==0.10.2", "torch==0.11.0")),
            (NARROW, ("vllm==0.11.1",)),
            (NARROW, ("vllm==0.32.0",)),
        )
    ),
    Case(FAULT, None, on_v100(), NARROW, has("vllm==0.6.4")),
    Case(FAULT, None, config(), NARROW, FORK),
    Case(FAULT, None, on_v100(), NARROW, gpus(software=None)),
    Case(
        FAULT,
        fault("1.3.0", "with AWQ weights", "the sum over experts has no fixed order", SUM),
        on_v100(),
        llama(head_dim=256, quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128}),
        FORK,
    ),
    Case(FAULT, SAMPLING, on_v100(), NOTHING, has("vllm==0.11.0")),
    Case(FAULT, JITTER, on_v100(), NOTHING, has("flash-attn-v100==1.2.0")),
]
SEVERITIES = {FAULT: Severity.warn}
