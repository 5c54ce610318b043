"""Rules about numbers that mean nothing, whatever the model and the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule

SPECULATIVE = ("none", "mtp", "dflash2", "draft_model", "ngram")

LONGEST_WAIT_S = 7 * 24 * 3600


def sizes_positive(context: Context) -> Iterator[Problem]:
    """Counts and sizes are at least one."""
    for where, size in _sizes(context.config).items():
        if size is not None and size < 1:
            yield Problem(where, f"{size} is not a size", f"use {where}=1 or more")


def _sizes(config: DeploymentConfig) -> Mapping[str, int | float | None]:
    limits = config.limits
    sizes: dict[str, int | float | None] = {
        "limits.max_model_len": limits.max_model_len,
        "limits.max_num_seqs": limits.max_num_seqs,
        "limits.max_num_batched_tokens": limits.max_num_batched_tokens,
        "limits.tensor_parallel": limits.tensor_parallel,
        "limits.kv_cache_memory_bytes": limits.kv_cache_memory_bytes,
        "limits.block_size": limits.block_size,
        "dcp.size": config.dcp.size,
        "dcp.interleave": config.dcp.interleave,
    }
    drafting = {"speculative.tokens": config.speculative.tokens} if config.speculative.method != "none" else {}
    return sizes | drafting


def utilization_is_a_share(context: Context) -> Iterator[Problem]:
    """The share of a GPU's memory lies above 0 and is at most 1."""
    share = context.config.limits.gpu_memory_utilization
    if not 0 < share <= 1:
        yield Problem(
            "limits.gpu_memory_utilization",
            f"{share} is no share of a memory",
            "use limits.gpu_memory_utilization=0.9, or 0.1 to 1.0",
        )


def timeouts_positive(context: Context) -> Iterator[Problem]:
    """A time to wait is longer than nothing, which NaN is not, and ends while someone may still be waiting."""
    engine = context.config.engine
    for name in ("start_timeout_s", "stop_timeout_s"):
        seconds = getattr(engine, name)
        if not 0 < seconds <= LONGEST_WAIT_S:
            fix = f"use engine.{name}=1 to {LONGEST_WAIT_S}"
            yield Problem(f"engine.{name}", f"{seconds} seconds is no time to wait", fix)


def batch_below_requests(context: Context) -> Iterator[Problem]:
    """A step computes at least one token of each running request."""
    limits = context.config.limits
    if limits.max_num_batched_tokens < limits.max_num_seqs:
        yield Problem(
            "limits.max_num_batched_tokens",
            f"{limits.max_num_batched_tokens:,} tokens a step are fewer than the {limits.max_num_seqs:,} requests",
            f"use limits.max_num_batched_tokens={limits.max_num_seqs} or more",
        )


def speculative_unknown(context: Context) -> Iterator[Problem]:
    """A way of drafting that no engine of ours has."""
    method = context.config.speculative.method
    if method not in SPECULATIVE:
        yield Problem(
            "speculative.method",
            f"'{method}' is no way of drafting",
            f"choose speculative.method={' or '.join(SPECULATIVE)}",
        )


def port_out_of_range(context: Context) -> Iterator[Problem]:
    """A TCP port is a number from 1 to 65535."""
    port = context.config.server.port
    if not 1 <= port <= 65535:
        yield Problem("server.port", f"{port} is no TCP port", "use server.port=8000, or another from 1024 to 65535")


RULES = (
    Rule(
        "sizes-positive",
        "Counts and sizes are at least one",
        Severity.refuse,
        sizes_positive,
        "docs/config.md, section 'limits'",
    ),
    Rule(
        "utilization-range",
        "The share of GPU memory is one",
        Severity.refuse,
        utilization_is_a_share,
        "vLLM 0.32 config/cache.py: gpu_memory_utilization",
    ),
    Rule("timeouts-positive", "Times to wait end within a week", Severity.refuse, timeouts_positive, "docs/serve.md"),
    Rule(
        "batch-below-requests",
        "A step has a token for each request",
        Severity.refuse,
        batch_below_requests,
        "vLLM 0.32 config/scheduler.py: verify_max_model_len",
    ),
    Rule(
        "speculative-unknown",
        "The way of drafting is one of ours",
        Severity.refuse,
        speculative_unknown,
        "docs/config.md, section 'speculative'",
    ),
    Rule(
        "port-out-of-range",
        "The server's port is a TCP port",
        Severity.refuse,
        port_out_of_range,
        "RFC 6335, section 6",
    ),
)
