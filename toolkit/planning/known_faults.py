"""Releases that are known to do wrong on a V100, as data: docs/rules.md lists them, and two rules look for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

Version = tuple[int, ...]
FORK = "1cat-vllm"


class When(Enum):
    """What a deployment must have for a fault to show; the value completes `it shows`."""

    always = "always"
    awq = "with AWQ weights"
    integers = "with weights of 4- or 8-bit integers"
    drafts = "with drafts of the model's own head"
    images = "with models that take images"
    prefix_caching = "with prefix caching"
    offload = "with recurrent states and KV offload"
    other_heads = "with heads of other than 256 elements"
    heads_of_128 = "with heads of 128 elements"


@dataclass(frozen=True)
class KnownFault:
    """One fault of a package's releases from `since` on, and before `mended`."""

    package: str
    mended: Version
    what: str
    when: When
    reference: str
    since: Version = ()

    @property
    def versions(self) -> str:
        """Its releases in words."""
        return f"{f'{dotted(self.since)} and later, ' if self.since else ''}before {dotted(self.mended)}"


def dotted(version: Version) -> str:
    """A version as it is written."""
    return ".".join(map(str, version))


WRONG_OUTPUT = (
    KnownFault(
        FORK,
        (1, 5, 0),
        "the classic AWQ kernels return values that were never computed",
        When.awq,
        "1CatAI/1Cat-vLLM pull requests 204 and 221",
    ),
    KnownFault(
        FORK,
        (1, 5, 0),
        "a prefix that is loaded back may bring another position's state",
        When.offload,
        "1CatAI/1Cat-vLLM pull requests 247 and 249",
    ),
)
"""Answers that are wrong without a word: a plan that meets one is refused."""
FAULTS = (
    KnownFault(
        FORK,
        (1, 5, 0),
        "paged prefill has a race in shared memory",
        When.other_heads,
        "1CatAI/1Cat-vLLM pull request 202",
    ),
    KnownFault(
        FORK,
        (1, 5, 0),
        "paged prefill gives one prompt several results",
        When.heads_of_128,
        "1CatAI/1Cat-vLLM issue 98 and pull request 226",
    ),
    KnownFault(
        "flash-attn-v100",
        (1, 2, 1),
        "paged prefill gives one prompt several results",
        When.heads_of_128,
        "1CatAI/1Cat-vLLM issue 98",
    ),
    KnownFault(
        FORK,
        (1, 5, 0),
        "the sum over experts has no fixed order",
        When.awq,
        "1CatAI/1Cat-vLLM pull request 225",
    ),
    KnownFault(
        FORK,
        (1, 5, 0),
        "a sampled request that joins greedy ones ends the engine",
        When.drafts,
        "1CatAI/1Cat-vLLM pull request 230",
    ),
    KnownFault(
        FORK,
        (1, 5, 0),
        "a full cache of images never stops evicting, and the server hangs while /health answers",
        When.images,
        "1CatAI/1Cat-vLLM pull request 261; vllm-project/vllm issue 43941",
    ),
    KnownFault(
        FORK,
        (1, 2, 2),
        "gptq_marlin_repack has no code for sm_70",
        When.integers,
        "1CatAI/1Cat-vLLM issue 87",
        since=(1, 2, 1),
    ),
    KnownFault(
        "vllm",
        (0, 6, 4),
        "the second request with a known prefix ends the engine",
        When.prefix_caching,
        "vllm-project/vllm issue 3944",
    ),
    KnownFault(
        "vllm",
        (0, 11, 1),
        "sampling with top-k or top-p fails",
        When.always,
        "vllm-project/vllm issue 27729",
        since=(0, 11, 0),
    ),
)
"""Crashes, hangs and results that differ from run to run."""
