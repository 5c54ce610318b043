"""What is served for the proof: family, engine options, and which checks beyond equal tokens."""

from dataclasses import dataclass
from itertools import product

CACHE = 2 << 30
LENGTHS = (5, 33, 170, 700)
"""Tokens of each prompt whose answer is compared."""


@dataclass(frozen=True)
class Case:
    """One server. `checks` are names in checks.EXTRA."""

    family: str
    kv: str = "float16"
    compiled: bool = False
    label: str = ""
    suite: str = "families"
    overrides: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    against: str = "reference"
    """`reference`: transformers in float32, with the cache's rounding; `cpu`: the CPU engine's record; `stock`:
    upstream's own operators on the same GPU; `refused`: the rules that refuse it, in `checks`."""
    arguments: tuple[str, ...] = ()
    """Passed to vLLM as they are; `{models}` is the folder of the checkpoints."""
    lengths: tuple[int, ...] = LENGTHS
    draft: str = ""
    """The family of a draft model."""
    adapter: str = ""
    """The name under which the family is asked with its LoRA adapter."""
    gpus: int = 1

    @property
    def name(self):
        mode = "compiled" if self.compiled else "eager"
        return "-".join(part for part in (self.family, self.kv, mode, self.label) if part)

    @property
    def folders(self):
        """The checkpoints that it needs, by their names in models.MAKERS."""
        return [self.family, *filter(None, (self.draft, f"{self.family}_lora" if self.adapter else ""))]


FAMILIES = ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_moe", "qwen3", "qwen2", "llama")
LOAD = ("concurrent", "cancelled", "prefix_hits")
SMALL = ("limits.kv_cache_memory_bytes=33554432", "limits.max_model_len=1024")
LONG = {"overrides": ("limits.max_model_len=110592",), "lengths": (100_000,), "label": "long"}
MTP = {"compiled": True, "label": "mtp", "overrides": ("speculative=mtp3",), "checks": ("drafted",)}
NGRAM = {"compiled": True, "label": "ngram", "overrides": ("speculative=ngram",)}
DRAFT = {
    "compiled": True,
    "label": "draft",
    "draft": "llama_draft",
    "overrides": ("speculative=draft", "speculative.draft_path={models}/llama_draft"),
    "checks": ("drafted", "concurrent"),
}
LORA = ("--enable-lora", "--max-loras", "1", "--max-lora-rank", "8", "--lora-modules", "adapted={models}/qwen3_lora")

FIRST = tuple(Case(family, compiled=True, checks=LOAD) for family in FAMILIES)
REST = (
    *(Case(family, kv, compiled=True) for family, kv in product(FAMILIES, ("fp8_e4m3", "fp8_e5m2"))),
    Case("qwen3_next", **MTP),
    Case("qwen3_5", **MTP),
    Case("qwen3_5", "fp8_e4m3", **MTP),
    *(Case(family) for family in FAMILIES),
    Case("llama", **LONG),
    Case("qwen3", "fp8_e4m3", **LONG),
    Case("qwen3_5_text", **LONG, compiled=True),
    Case("qwen3", compiled=True, label="small-cache", overrides=SMALL, checks=("preempted",)),
    Case("qwen3", **NGRAM),
    Case("qwen3_next", **NGRAM),
    Case("llama", **DRAFT),
    Case("llama", "fp8_e4m3", **DRAFT),
    Case("qwen3", compiled=True, label="lora", arguments=LORA, adapter="adapted"),
)
BESIDE_STOCK = tuple(
    Case(family, compiled=True, label="beside-stock", suite="beside-stock", against="stock")
    for family in ("qwen3", "qwen3_moe", "qwen3_next")
)
SMOLLM2 = tuple(
    Case("smollm2", kv, compiled=compiled, suite="smollm2", against=against, checks=("capital",))
    for (kv, against), compiled in product((("float16", "cpu"), ("fp8_e4m3", "reference")), (True, False))
)
PAIR = {"compiled": True, "suite": "two-gpus", "gpus": 2}
TWO_GPUS = (
    *(Case(family, **PAIR, label="two-gpus", checks=LOAD) for family in ("qwen3_next", "qwen3_moe", "qwen3")),
    Case("qwen3_5", **{**PAIR, **MTP, "label": "two-gpus-mtp"}),
    Case("qwen3", "fp8_e4m3", **PAIR, label="two-gpus"),
    Case(
        "qwen3", **PAIR, label="two-gpus-dcp", overrides=("dcp.size=2",), against="refused", checks=("route-dcp",)
    ),
)  # fmt: skip
CASES = (*FIRST, *REST, *SMOLLM2, *BESIDE_STOCK, *TWO_GPUS)
"""Each suite's in the order in which they start: one of each family first, whose compiled code the others find."""
