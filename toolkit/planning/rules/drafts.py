"""Rules about drafting tokens ahead: whether the checkpoint has what drafts, in a form that loads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.planning.extra_arguments import value_of
from toolkit.planning.geometry.quantization import Scheme
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes, no_tensors

SIXTEEN_BITS = ("BF16", "F16", "F32")
"""Element types of weights that are not quantised, as safetensors spells them."""
PROCESSORS = "--logits-processors"
HEAD = re.compile(r"(^|\.)mtp\.fc\.weight$")


def head_missing(context: Context) -> Iterator[Problem]:
    """A checkpoint without its own next-token head cannot draft with it."""
    if context.config.speculative.method != "mtp":
        return
    if context.geometry is None:
        yield no_shapes()
    elif not context.geometry.mtp_layers:
        yield Problem("speculative", "config.json names no layer of a next-token head", "use speculative=none or ngram")
    elif not context.checkpoint.tensors:
        yield no_tensors("speculative")
    elif not any("mtp." in name for name in context.checkpoint.tensors):
        yield Problem("speculative", "the checkpoint's files hold no next-token head", "use speculative=none or ngram")


def head_quantised_by_name(context: Context) -> Iterator[Problem]:
    """A head that is stored in 16 bits and listed as quantised is skipped at loading: no draft is ever accepted."""
    if context.config.speculative.method != "mtp":
        return
    if context.geometry is None:
        yield no_shapes()
        return
    quantization, tensors = context.geometry.quantization, context.checkpoint.tensors
    if quantization.scheme is Scheme.none:
        return
    if not tensors:
        yield no_tensors("speculative")
    for name in filter(HEAD.search, tensors):
        if tensors[name].dtype in SIXTEEN_BITS and not quantization.keeps(name.removesuffix(".weight")):
            yield Problem(
                "checkpoint",
                f"{name} is stored as {tensors[name].dtype}, and quantization_config counts it as quantised: the "
                "loader skips it, and no draft is ever accepted",
                f"add '{name.removesuffix('.weight')}' to quantization_config's ignored modules in a view",
            )


def draft_model_missing(context: Context) -> Iterator[Problem]:
    """Such a drafter is a model of its own."""
    draft = context.config.speculative
    if draft.has_draft and not draft.draft_path and not draft.draft_repository:
        known = "choose speculative=dflash2, or " if draft.method == "dflash2" else ""
        yield Problem("speculative", "no draft model is named", f"{known}set speculative.draft_path")


def output_head_quantised(context: Context) -> Iterator[Problem]:
    """A block drafter reads the target's output head as plain numbers."""
    if context.config.speculative.method != "dflash2":
        return
    if context.geometry is None:
        yield no_shapes()
        return
    tensors = context.checkpoint.tensors
    if context.geometry.quantization.scheme is Scheme.none:
        return
    if not tensors:
        yield no_tensors("speculative")
    for name in (name for name in tensors if name.endswith("lm_head.weight")):
        if tensors[name].dtype not in SIXTEEN_BITS:
            yield Problem(
                "checkpoint",
                f"{name} is stored as {tensors[name].dtype}, and DFlash2 needs an output head that is not quantised",
                "use speculative=mtp3 or none, or a checkpoint whose output head has 16 bits",
            )


def drafts_with_processors(context: Context) -> Iterator[Problem]:
    """Drafts are accepted by the model's own probabilities, which a processor of logits would change."""
    config = context.config
    if config.speculative.method != "none" and value_of(config.engine.extra_arguments, PROCESSORS) is not None:
        yield Problem(
            "engine.extra_arguments",
            f"the engine takes no {PROCESSORS} together with drafts",
            f"use speculative=none, or leave {PROCESSORS} out",
        )


def drafts_with_states_on_cpu(context: Context) -> Iterator[Problem]:
    """With drafts, states move between blocks by a Triton kernel, and the CPU engine has none: it ends at a request."""
    config = context.config
    mode = value_of(config.engine.extra_arguments, "--mamba-cache-mode")
    if config.engine.name is not EngineName.cpu or config.speculative.method == "none":
        return
    if not config.limits.prefix_caching or mode not in (None, "align"):
        return
    if context.geometry is None:
        yield no_shapes()
    elif context.geometry.recurrent is not None:
        yield Problem(
            "limits.prefix_caching",
            "the CPU engine ends at the first request: it cannot keep recurrent states for prefixes beside drafts",
            "set limits.prefix_caching=false, or speculative=none",
        )


def drafts_past_window(context: Context) -> Iterator[Problem]:
    """At the end of a full context, drafts lie beyond the last position."""
    draft, asked = context.config.speculative, context.config.limits.max_model_len
    if draft.method == "none":
        return
    if context.geometry is None:
        yield no_shapes()
        return
    longest = context.geometry.max_position_embeddings
    if longest is not None and asked <= longest < asked + draft.tokens:
        yield Problem(
            "limits.max_model_len",
            f"drafts of the last {asked + draft.tokens - longest} tokens of a full context lie past the model's "
            f"{longest:,} positions",
        )


RULES = (
    Rule(
        "head-missing",
        "A next-token head is there to draft with",
        Severity.refuse,
        head_missing,
        "vLLM 0.32 config/speculative.py: hf_config_override",
    ),
    Rule(
        "head-quantised-by-name",
        "The next-token head loads as it is stored",
        Severity.refuse,
        head_quantised_by_name,
        "1CatAI/1Cat-vLLM pull request 88",
    ),
    Rule(
        "draft-model-missing",
        "A draft model is named",
        Severity.refuse,
        draft_model_missing,
        "docs/config.md, section 'speculative'",
    ),
    Rule(
        "output-head-quantised",
        "The output head that a block drafter reads is not quantised",
        Severity.refuse,
        output_head_quantised,
        "1CatAI/1Cat-vLLM pull request 476",
    ),
    Rule(
        "drafts-with-processors",
        "Nothing changes the logits that drafts are held against",
        Severity.refuse,
        drafts_with_processors,
        "vLLM 0.32 v1/sample/logits_processor/__init__.py: STR_SPEC_DEC_REJECTS_LOGITSPROCS",
    ),
    Rule(
        "drafts-with-states-on-cpu",
        "The CPU engine moves no states beside drafts",
        Severity.refuse,
        drafts_with_states_on_cpu,
        "vLLM 0.32 v1/worker/mamba_utils.py: run_fused_precopy",
    ),
    Rule(
        "drafts-past-window",
        "Drafts stay within the model's positions",
        Severity.info,
        drafts_past_window,
        "1CatAI/1Cat-vLLM pull request 666",
    ),
)
