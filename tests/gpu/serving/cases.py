"""What is served for the proof: family, engine options, and which checks beyond equal tokens."""

from dataclasses import dataclass, field

CACHE = 2 << 30


@dataclass(frozen=True)
class Case:
    """One server. `checks` are names in checks.EXTRA."""

    family: str
    kv: str = "float16"
    compiled: bool = False
    overrides: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    against: str = "reference"
    """`reference`: transformers in float32; `close`: the same, with an FP8 cache's error; `none`: the checks alone."""
    label: str = ""
    arguments: tuple[str, ...] = field(default=())
    """Passed to vLLM as they are."""
    stock: bool = False
    """Also served by upstream's own platform and operators, on the same GPU, for comparison."""

    @property
    def name(self):
        mode = "compiled" if self.compiled else "eager"
        return "-".join(part for part in (self.family, self.kv, mode, self.label) if part)


LOAD = ("concurrent", "cancelled", "prefix_hits")
SMALL = ("limits.kv_cache_memory_bytes=33554432", "limits.max_model_len=1024")
LONG = ("limits.max_model_len=110592",)
CASES = (
    Case("qwen3_next", compiled=True, label="mtp", overrides=("speculative=mtp3",)),
    Case("qwen3_5", compiled=True, label="mtp", overrides=("speculative=mtp3",)),
    Case("qwen3_next", compiled=True, checks=LOAD),
    Case("qwen3_5", compiled=True, checks=LOAD),
    Case("qwen3_5_text", "fp8_e4m3", compiled=True, against="close"),
    Case("qwen3_next"),
    Case("qwen3_5_text"),
    Case("qwen3_moe", compiled=True, checks=LOAD),
    Case("qwen3", compiled=True, checks=LOAD),
    Case("qwen3", "fp8_e4m3", compiled=True, against="close", checks=LOAD),
    Case("qwen3", "fp8_e5m2", compiled=True, against="close"),
    Case("qwen3", compiled=True, label="small-cache", overrides=SMALL, checks=("preempted",)),
    Case("qwen3", compiled=True, label="ngram", overrides=("speculative=ngram",)),
    Case("qwen3", "fp8_e4m3", label="long", overrides=LONG, checks=("long_prompt",), against="none"),
    Case("llama", compiled=True),
    Case("qwen2", compiled=True),
    Case("qwen3"),
    Case("qwen3_moe"),
    Case("qwen3", compiled=True, label="beside-stock", stock=True),
    Case("qwen3_moe", compiled=True, label="beside-stock", stock=True),
)
"""The longest first, so that several at once end together. `beside-stock` is for one at a time, on a quiet GPU."""
