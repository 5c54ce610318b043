"""Rules about the checkpoint and the recipe."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from toolkit.checkpoint.differences import declared_differences
from toolkit.config.schema.checkpoint import SourceKind
from toolkit.config.schema.recipe import RecipeStatus
from toolkit.planning.plan import Severity
from toolkit.planning.rules.parallelism import text_config
from toolkit.planning.rules.rule import Context, Problem, Rule, unknown

SCALED_ALREADY = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
"""Rotary embeddings whose factor is in max_position_embeddings already; vLLM multiplies it with any other's."""
SHOWN = 3
"""Differences that one message names."""


def recipe_unsupported(context: Context) -> Iterator[Problem]:
    """A recipe that says itself that it cannot be served."""
    recipe = context.config.recipe
    if recipe.status is RecipeStatus.unsupported:
        yield Problem(
            f"recipe={context.recipe}" if context.recipe else "recipe.status",
            f"this recipe is not supported: {recipe.reason or 'it gives no reason'}",
            "choose another recipe; `verified` ones are listed in README.md",
        )


def checkpoint_missing(context: Context) -> Iterator[Problem]:
    """A local folder cannot be fetched."""
    facts = context.checkpoint
    if not facts.present and context.config.checkpoint.source.kind is SourceKind.local:
        yield Problem(
            "checkpoint.source.path", facts.missing or "the folder is not here", "set checkpoint.source.path=DIR"
        )


def checkpoint_not_here_yet(context: Context) -> Iterator[Problem]:
    """A plan from declared facts says so."""
    facts = context.checkpoint
    if not facts.present and context.config.checkpoint.source.kind is not SourceKind.local:
        yield Problem(
            "checkpoint",
            f"planned from what the recipe declares: {facts.missing or 'the files are not on this machine'}",
            "serve fetches the files first",
        )


def declared_differs(context: Context) -> Iterator[Problem]:
    """The recipe was written for another checkpoint than the one that is here."""
    found = declared_differences(context.checkpoint, context.config.checkpoint.declared)
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        yield Problem(
            "checkpoint.declared",
            f"config.json is not what the recipe says: {'; '.join(map(str, found[:SHOWN]))}{more}",
            "check that the checkpoint is the one that the recipe means; config.json counts",
        )


def model_name(context: Context) -> Iterator[Problem]:
    """The name becomes a folder's, and clients send it."""
    name = context.config.checkpoint.name
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name, re.ASCII):
        yield Problem("checkpoint.name", f"'{name}' is no model name", "use letters, digits and . _ - only")


def context_too_long(context: Context) -> Iterator[Problem]:
    """A model answers nonsense beyond the positions that it was trained for."""
    text = text_config(context.checkpoint.config)
    longest = text.get("max_position_embeddings")
    asked = context.config.limits.max_model_len
    if not isinstance(longest, int):
        yield unknown("limits.max_model_len", "config.json does not say for how many positions the model was trained")
        return
    longest = int(longest * _stretch(text))
    if asked > longest:
        yield Problem(
            "limits.max_model_len",
            f"{asked:,} tokens are asked for and the model has positions for {longest:,}",
            f"use limits.max_model_len={longest}; prompt and output together must fit into it",
        )


def _stretch(text: Mapping[str, Any]) -> Fraction:
    """By how much a model's rotary embedding stretches its positions; 1 where it does not."""
    found = Fraction(1)
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(rope, Mapping) or "gemma3" in str(text.get("model_type")):
        return found
    for part in (rope, *rope.values()):  # one for all layers, or one for each kind of layer
        if isinstance(part, Mapping) and part.get("rope_type", part.get("type")) not in SCALED_ALREADY:
            factor = part.get("factor")
            found = Fraction(factor) if isinstance(factor, int | float) and abs(factor) < math.inf else found
    return found


RULES = (
    Rule("recipe-unsupported", "The recipe can be served", Severity.refuse, recipe_unsupported, "docs/recipes.md"),
    Rule("checkpoint-missing", "A local checkpoint is there", Severity.refuse, checkpoint_missing, "docs/recipes.md"),
    Rule(
        "checkpoint-not-here-yet",
        "The plan was made from the files",
        Severity.info,
        checkpoint_not_here_yet,
        "docs/plan.md",
    ),
    Rule("declared-differs", "The checkpoint is the declared one", Severity.warn, declared_differs, "docs/recipes.md"),
    Rule("model-name", "The model's name can be a folder's", Severity.refuse, model_name, "docs/materialize.md"),
    Rule(
        "context-too-long",
        "The model has positions for max_model_len",
        Severity.refuse,
        context_too_long,
        "vLLM 0.32 config/model.py: _get_and_verify_max_len",
    ),
)
