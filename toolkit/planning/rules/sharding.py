"""Rules about decode context parallelism: what can be shared by ranks, and how finely."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.planning.extra_arguments import value_of
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes, unknown

SPARSE_SIZE = 2
"""Ranks that sparse attention (QSA) can share a cache over."""


def shards(context: Context) -> bool:
    """Whether ranks share a request's cache."""
    return context.config.dcp.size > 1


def dcp_needs_fewer_kv_heads(context: Context) -> Iterator[Problem]:
    """Only ranks that would hold copies of the same KV head can share its tokens."""
    if not shards(context):
        return
    if context.geometry is None:
        yield no_shapes()
        return
    dcp, ranks = context.config.dcp.size, context.config.limits.tensor_parallel
    heads = context.geometry.attention.kv_heads
    most = max(1, ranks // heads)
    if dcp > most:
        yield Problem(
            "dcp.size",
            f"{heads} KV heads on {ranks} ranks are held {most} times each, so {dcp} ranks cannot share one",
            f"use dcp.size={most}, or at least limits.tensor_parallel={heads * dcp}",
        )


def dcp_splits_queries(context: Context) -> Iterator[Problem]:
    """The query heads of one KV head are dealt out to the ranks that share it."""
    if not shards(context):
        return
    if context.geometry is None:
        yield no_shapes()
        return
    dcp, attention = context.config.dcp.size, context.geometry.attention
    queries = attention.query_heads // attention.kv_heads
    if queries % dcp:
        yield Problem(
            "dcp.size",
            f"{queries} query heads for each KV head do not divide over {dcp} ranks",
            "use dcp.size=1",
        )


def dcp_with_sparse_attention(context: Context) -> Iterator[Problem]:
    """The selector chooses whole groups of tokens, which lie on one rank or on all of them alike."""
    if not shards(context):
        return
    if context.geometry is None:
        yield no_shapes()
        return
    dcp, indexer = context.config.dcp, context.geometry.indexer
    if indexer is None:
        return
    if dcp.size != SPARSE_SIZE:
        yield Problem(
            "dcp.size", f"sparse attention shares a cache over 2 ranks, not over {dcp.size}", "use dcp=1 or dcp=2"
        )
    elif indexer.compress_ratio % (dcp.size * dcp.interleave):
        yield Problem(
            "dcp.interleave",
            f"{dcp.interleave} tokens in a row on each of {dcp.size} ranks do not fit into groups of "
            f"{indexer.compress_ratio}",
            "use dcp.interleave=1",
        )


def dcp_interleave(context: Context) -> Iterator[Problem]:
    """A block holds whole runs of tokens."""
    interleave = context.config.dcp.interleave
    if not shards(context) or interleave == 1:
        return
    if context.block_tokens is None:
        yield unknown("dcp.interleave", "the size of a block is not known")
    elif context.block_tokens % interleave:
        yield Problem(
            "dcp.interleave",
            f"blocks of {context.block_tokens:,} tokens do not divide into runs of {interleave}",
            "use dcp.interleave=1",
        )


def dcp_drafts_interleaved(context: Context) -> Iterator[Problem]:
    """Drafts are verified in an order that runs of several tokens break."""
    if shards(context) and context.config.dcp.interleave > 1 and context.config.speculative.method != "none":
        yield Problem(
            "dcp.interleave",
            "drafts cannot be verified on a cache that is dealt out in runs of several tokens",
            "use dcp.interleave=1 or speculative=none",
        )


def dcp_with_stages(context: Context) -> Iterator[Problem]:
    """Packed pages and the merge of partial results know one pipeline stage."""
    stages = value_of(context.config.engine.extra_arguments, "--pipeline-parallel-size", "-pp")
    if shards(context) and stages not in (None, "1"):
        yield Problem(
            "engine.extra_arguments",
            f"a cache that ranks share cannot be spread over {stages} pipeline stages as well",
            "use dcp=1, or leave the pipeline argument out",
        )


UPSTREAM = "vLLM 0.32 config/model.py: verify_with_parallel_config"
RULES = (
    Rule(
        "dcp-needs-fewer-kv-heads",
        "Ranks that share a cache hold the same KV head",
        Severity.refuse,
        dcp_needs_fewer_kv_heads,
        UPSTREAM,
    ),
    Rule(
        "dcp-splits-queries",
        "Query heads divide over the ranks that share a cache",
        Severity.refuse,
        dcp_splits_queries,
        UPSTREAM,
    ),
    Rule(
        "dcp-with-sparse-attention",
        "Sparse attention's groups fit the sharing",
        Severity.refuse,
        dcp_with_sparse_attention,
        "1CatAI/1Cat-vLLM pull request 702",
    ),
    Rule(
        "dcp-interleave",
        "A block holds whole runs of tokens",
        Severity.refuse,
        dcp_interleave,
        "vLLM 0.32 config/vllm.py: validate_block_size",
    ),
    Rule(
        "dcp-drafts-interleaved",
        "Drafts are verified on tokens dealt out one by one",
        Severity.refuse,
        dcp_drafts_interleaved,
        "vLLM 0.32 v1/worker/cp_utils.py: check_attention_cp_compatibility",
    ),
    Rule(
        "dcp-with-stages",
        "A shared cache lies in one pipeline stage",
        Severity.refuse,
        dcp_with_stages,
        "1CatAI/1Cat-vLLM pull request 702",
    ),
)
