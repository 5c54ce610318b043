"""Rules about how a model divides over GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.config.schema.engine import EngineName
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, unknown

MOST_RANKS = 16


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config.json; multimodal ones nest it."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


def heads_not_divisible(context: Context) -> Iterator[Problem]:
    """Each rank needs the same number of query heads."""
    ranks = max(context.config.limits.tensor_parallel, 1)  # fewer is sizes-positive's
    heads = text_config(context.checkpoint.config).get("num_attention_heads")
    if not isinstance(heads, int):
        yield unknown("limits.tensor_parallel", "config.json does not say how many attention heads there are")
    elif heads % ranks:
        yield Problem(
            "limits.tensor_parallel",
            f"{heads} attention heads do not divide over {ranks} ranks",
            f"use limits.tensor_parallel={' or '.join(_fitting(heads))}",
        )


def _fitting(heads: int) -> Iterator[str]:
    """Numbers of ranks over which heads divide, as far as machines have GPUs."""
    return (str(count) for count in range(1, min(heads, MOST_RANKS) + 1) if heads % count == 0)


def most_ranks(config: Mapping[str, Any], gpus: int) -> int:
    """The most ranks on so many GPUs over which a model's heads divide; at least 1."""
    text = text_config(config)
    heads = text.get("num_attention_heads")
    kv_heads = text.get("num_key_value_heads", heads)
    for ranks in range(gpus, 1, -1):
        divides = not isinstance(heads, int) or heads % ranks == 0
        if divides and (not isinstance(kv_heads, int) or kv_heads < 1 or not _uneven(kv_heads, ranks)):
            return ranks
    return 1


def _uneven(kv_heads: int, ranks: int) -> bool:
    """Whether KV heads neither divide over nor repeat evenly on the ranks."""
    return max(kv_heads, ranks) % min(kv_heads, ranks) != 0


def hidden_not_divisible(context: Context) -> Iterator[Problem]:
    """Transformers refuses such a Llama, whatever its head_dim says."""
    text = text_config(context.checkpoint.config)
    hidden, heads = text.get("hidden_size"), text.get("num_attention_heads")
    if text.get("model_type") != "llama" or not isinstance(hidden, int) or not isinstance(heads, int) or not heads:
        return
    if hidden % heads:
        yield Problem(
            "checkpoint",
            f"a hidden size of {hidden:,} is no multiple of {heads} attention heads, which a Llama's must be",
            "use the config.json that was published with the checkpoint",
        )


def kv_heads_not_divisible(context: Context) -> Iterator[Problem]:
    """KV heads are split evenly, or each is copied to the same number of ranks."""
    ranks = max(context.config.limits.tensor_parallel, 1)
    text = text_config(context.checkpoint.config)
    heads = text.get("num_key_value_heads", text.get("num_attention_heads"))  # as many as query heads if it is absent
    if not isinstance(heads, int) or heads < 1:
        yield unknown("limits.tensor_parallel", "config.json does not say how many KV heads there are")
    elif _uneven(heads, ranks):
        yield Problem(
            "limits.tensor_parallel",
            f"{heads} KV heads neither divide over nor repeat evenly on {ranks} ranks",
            f"use limits.tensor_parallel={' or '.join(_fitting(heads))}, or a multiple of {heads}",
        )


def dcp_needs_ranks(context: Context) -> Iterator[Problem]:
    """The ranks that share a cache are a part of the tensor-parallel ranks."""
    dcp, ranks = context.config.dcp.size, context.config.limits.tensor_parallel
    if ranks % max(dcp, 1):
        yield Problem(
            "dcp.size",
            f"{dcp} ranks cannot share a cache out of {ranks} tensor-parallel ranks",
            f"use limits.tensor_parallel={dcp} or a multiple of it",
        )


def dcp_on_cpu(context: Context) -> Iterator[Problem]:
    """The CPU engine's attention returns no log-sum-exp, so partial results cannot be merged."""
    if context.config.dcp.size > 1 and context.config.engine.name is EngineName.cpu:
        yield Problem("dcp.size", "the CPU engine cannot shard a KV cache over ranks", "use dcp=1 or engine=v100")


RULES = (
    Rule(
        "hidden-not-divisible",
        "A Llama's heads divide its hidden size",
        Severity.refuse,
        hidden_not_divisible,
        "transformers 5.19 models/llama/configuration_llama.py: validate_architecture",
    ),
    Rule(
        "heads-not-divisible",
        "Attention heads divide over the ranks",
        Severity.refuse,
        heads_not_divisible,
        "vllm-project/vllm issues 414, 596, 2652 and 4232",
    ),
    Rule(
        "kv-heads-not-divisible",
        "KV heads divide over or repeat on the ranks",
        Severity.refuse,
        kv_heads_not_divisible,
        "vLLM 0.32 config/model.py: get_num_kv_heads",
    ),
    Rule(
        "dcp-needs-ranks",
        "DCP ranks are a part of the tensor-parallel ranks",
        Severity.refuse,
        dcp_needs_ranks,
        "vLLM 0.32 config/parallel.py: tp_size must be divisible by dcp_size",
    ),
    Rule(
        "dcp-on-cpu",
        "DCP needs attention that returns its log-sum-exp",
        Severity.refuse,
        dcp_on_cpu,
        "vLLM 0.32 v1/worker/cp_utils.py: check_attention_cp_compatibility",
    ),
)
