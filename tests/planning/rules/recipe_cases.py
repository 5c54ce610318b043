"""Cases of rules about the checkpoint and the recipe: see rule_cases."""

import cases
from rule_cases import Case, absent, waits

from toolkit.config.schema.checkpoint import SourceKind
from toolkit.config.schema.recipe import RecipeStatus
from toolkit.planning.plan import Severity

config, llama = cases.config, cases.llama
LOCAL = {"checkpoint__source__kind": SourceKind.local, "checkpoint__source__path": "/models/model"}
OTHER_RECIPE = "choose another recipe; `verified` ones are listed in README.md"

CASES = [
    Case(
        "recipe-unsupported",
        ("recipe=old", "this recipe is not supported: its kernels are gone", OTHER_RECIPE),
        config(recipe__status=RecipeStatus.unsupported, recipe__reason="its kernels are gone"),
        recipe="old",
    ),
    Case(
        "recipe-unsupported",
        ("recipe.status", "this recipe is not supported: it gives no reason", OTHER_RECIPE),
        config(recipe__status=RecipeStatus.unsupported),
    ),
    Case("recipe-unsupported", None, config(recipe__status=RecipeStatus.unverified)),
    Case("recipe-unsupported", None, config(recipe__status=RecipeStatus.verified)),
    Case(
        "checkpoint-missing",
        ("checkpoint.source.path", "the disk is not mounted", "set checkpoint.source.path=DIR"),
        config(**LOCAL),
        absent("the disk is not mounted"),
    ),
    Case(
        "checkpoint-missing",
        ("checkpoint.source.path", "the folder is not here", "set checkpoint.source.path=DIR"),
        config(**LOCAL),
        absent(),
    ),
    Case("checkpoint-missing", None, config(**LOCAL)),
    Case("checkpoint-missing", None, config(checkpoint__source__kind=SourceKind.hub), absent()),
    Case(
        "checkpoint-not-here-yet",
        ("checkpoint", "planned from what the recipe declares: it is on the hub", "serve fetches the files first"),
        config(checkpoint__source__kind=SourceKind.hub),
        absent("it is on the hub"),
    ),
    Case(
        "checkpoint-not-here-yet",
        (
            "checkpoint",
            "planned from what the recipe declares: the files are not on this machine",
            "serve fetches the files first",
        ),
        config(checkpoint__source__kind=SourceKind.hub),
        absent(),
    ),
    Case("checkpoint-not-here-yet", None, config(checkpoint__source__kind=SourceKind.hub)),
    Case("checkpoint-not-here-yet", None, config(**LOCAL), absent()),
    Case(
        "declared-differs",
        (
            "checkpoint.declared",
            (
                "config.json is not what the recipe says: head_dim is declared as 128, config.json has 64; "
                "hidden_size is declared as 1, config.json has 768; vocab_size is declared as 2, config.json has 49152 "
                "and 1 more"
            ),
            "check that the checkpoint is the one that the recipe means; config.json counts",
        ),
        config(checkpoint__declared={"head_dim": 128, "hidden_size": 1, "vocab_size": 2, "unknown": 3}),
    ),
    Case(
        "declared-differs",
        (
            "checkpoint.declared",
            (
                "config.json is not what the recipe says: a is declared as 1, config.json has absent; "
                "b is declared as 2, config.json has absent; c is declared as 3, config.json has absent"
            ),
            "check that the checkpoint is the one that the recipe means; config.json counts",
        ),
        config(checkpoint__declared={"a": 1, "b": 2, "c": 3}),
    ),
    Case("declared-differs", None, config(checkpoint__declared={"head_dim": 64})),
    Case("declared-differs", None, config(checkpoint__declared={"head_dim": 128}), absent()),
    *(
        Case(
            "model-name", ("checkpoint.name", f"'{name}' is no model name", "use letters, digits and . _ - only"), made
        )
        for name in ("", "a/b", "..", "-x", "a b", "é", "a\n")
        for made in [config(checkpoint__name=name)]
    ),
    Case("model-name", None, config(checkpoint__name="Qwen3.8_27B-x")),
    Case(
        "context-too-long",
        (
            "limits.max_model_len",
            "8,193 tokens are asked for and the model has positions for 8,192",
            "use limits.max_model_len=8192; prompt and output together must fit into it",
        ),
        config(limits__max_model_len=8193),
    ),
    Case("context-too-long", None, config(limits__max_model_len=8192)),
    *(
        waits(
            "context-too-long",
            "limits.max_model_len",
            "config.json does not say for how many positions the model was trained",
            config(limits__max_model_len=8193),
            checkpoint=cases.facts(config=made),
        )
        for made in ({}, {"max_position_embeddings": "8192"})
    ),
    Case(
        "context-too-long",
        (
            "limits.max_model_len",
            "65 tokens are asked for and the model has positions for 64",
            "use limits.max_model_len=64; prompt and output together must fit into it",
        ),
        config(limits__max_model_len=65),
        cases.facts(config={"max_position_embeddings": 9, "text_config": {"max_position_embeddings": 64}}),
    ),
    *(
        Case(
            "context-too-long",
            (
                "limits.max_model_len",
                f"{most + 1} tokens are asked for and the model has positions for {most}",
                f"use limits.max_model_len={most}; prompt and output together must fit into it",
            )
            if more
            else None,
            config(limits__max_model_len=most + more),
            cases.facts(config={"max_position_embeddings": 64} | rope),
        )
        for more in (0, 1)
        for most, rope in (
            (256, {"rope_scaling": {"type": "linear", "factor": 4}}),
            (96, {"rope_parameters": {"rope_type": "dynamic", "factor": 1.5}, "rope_scaling": {"factor": 9}}),
            (128, {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}}),
            (64, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
            (64, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
            (64, {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "model_type": "gemma3_text"}),
            (64, {"rope_scaling": {"rope_type": "linear", "factor": float("inf")}}),
            (64, {"rope_scaling": {"rope_type": "linear", "factor": "4"}}),
            (64, {"rope_scaling": [4]}),
        )
    ),
]
SEVERITIES = {"checkpoint-not-here-yet": Severity.info, "declared-differs": Severity.warn}
