"""Rules about what engine=v100 has no route for in this release, so that nobody learns it from a failing start."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.planning.geometry.model import LayerKind
from toolkit.planning.geometry.quantization import Scheme
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes

PAGE = "docs/v100.md"


def no_sharded_attention(context: Context) -> Iterator[Problem]:
    """The Triton attention that SM70 takes keeps no log-sum-exp that ranks could merge."""
    if context.config.engine.name is EngineName.v100 and context.config.dcp.size > 1:
        yield Problem("dcp.size", "engine=v100 has no attention that shards the KV cache yet", "use dcp=1")


def no_quantised_products(context: Context) -> Iterator[Problem]:
    """Upstream's kernels for quantised weights need a newer GPU, and ours do not exist yet."""
    if context.config.engine.name is not EngineName.v100:
        return
    if context.geometry is None:
        yield no_shapes()
        return
    scheme = context.geometry.quantization.scheme
    if scheme not in (Scheme.none, Scheme.unknown):
        yield Problem(
            "checkpoint", f"engine=v100 has no product for {scheme.value} weights yet", "use a checkpoint in 16 bits"
        )


def no_sparse_attention(context: Context) -> Iterator[Problem]:
    """Qwen4Exp's attention is written for BF16 and for more shared memory than SM70 has."""
    if context.config.engine.name is not EngineName.v100:
        return
    if context.geometry is None:
        yield no_shapes()
    elif LayerKind.sparse in context.geometry.layers:
        yield Problem("checkpoint", "engine=v100 has no sparse attention (Qwen4Exp) yet", "use another model")


def no_block_drafts(context: Context) -> Iterator[Problem]:
    """DFlash2 drafts have not been run on SM70's routes."""
    config = context.config
    if config.engine.name is EngineName.v100 and config.speculative.method == "dflash2":
        yield Problem(
            "speculative.method", "engine=v100 does not serve DFlash2 drafts yet", "use speculative=mtp3, ngram or none"
        )


RULES = (
    Rule("route-dcp", "engine=v100 has attention for this sharding", Severity.refuse, no_sharded_attention, PAGE),
    Rule("route-quantised", "engine=v100 has products for these weights", Severity.refuse, no_quantised_products, PAGE),
    Rule("route-sparse", "engine=v100 has attention for this model", Severity.refuse, no_sparse_attention, PAGE),
    Rule("route-drafts", "engine=v100 serves this draft", Severity.refuse, no_block_drafts, PAGE),
)
