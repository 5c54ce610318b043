"""Findings that come with the sizes of a plan, and not from a rule's own check; docs/rules.md lists them as well."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.planning.plan import Severity


@dataclass(frozen=True)
class Computed:
    """One finding; tests/planning/rules/computed_cases.py has its cases."""

    id: str
    title: str
    severity: Severity
    reference: str


REQUEST_MEMORY = "vLLM 0.32 v1/worker/utils.py: request_memory"
WORKERS_REFUSED = (
    ("workers-missing", "Every worker leaves a report"),
    ("workers-mixed", "The workers' reports are of one start"),
    ("workers-count", "There is a worker for each rank"),
    ("workers-imports", "Workers import from the planned environment alone"),
    ("workers-version", "Workers run the planned versions"),
    ("workers-platform", "Workers take the planned platform"),
    ("workers-gpu", "Workers of engine=v100 sit on V100s, with our library alone"),
)
WORKERS_WARNED = (
    ("workers-added-imports", "The engine imports from its own environment"),
    ("workers-report-early", "The workers report after the first answer"),
    ("workers-engine", "Workers are told the planned engine"),
    ("workers-compilation", "Workers compile as planned"),
    ("workers-graphs", "Workers take the planned kind of CUDA graphs"),
    ("workers-capture-sizes", "Workers capture the planned sizes"),
    ("workers-kv-blocks", "Workers have the planned KV blocks"),
    ("workers-switches", "Switches have their planned values"),
    ("workers-attention", "Layers take the planned attention"),
    ("workers-kv-dtype", "Layers have the planned KV dtype"),
)
COMPUTED = (
    Computed(
        "capacity-unknown",
        "The model's shapes give a capacity",
        Severity.warn,
        "vLLM 0.32 v1/core/kv_cache_utils.py: get_kv_cache_groups",
    ),
    Computed("view-unfit", "Scale pack, edits and checkpoint fit together", Severity.refuse, "docs/materialize.md"),
    Computed("pack-not-here-yet", "The scale pack is on this machine", Severity.info, "docs/materialize.md"),
    Computed("geometry-unknown", "The planner knows all of config.json that counts", Severity.warn, "docs/plan.md"),
    Computed("memory-unknown", "The plan decides every purpose of memory", Severity.info, "docs/plan.md"),
    Computed(
        "kv-too-small",
        "One full request fits into the cache",
        Severity.refuse,
        "vLLM 0.32 v1/core/kv_cache_utils.py: check_enough_kv_cache_memory",
    ),
    Computed("gpu-memory-short", "What is needed at the least fits into a GPU", Severity.refuse, REQUEST_MEMORY),
    Computed("gpu-memory-tight", "It fits with all margins", Severity.warn, "1CatAI/1Cat-vLLM issues 8 and 76"),
    Computed("gpu-share-short", "The engine's share can be free at the start", Severity.refuse, REQUEST_MEMORY),
    Computed("gpu-share-tight", "It can be free with all margins", Severity.warn, "1CatAI/1Cat-vLLM pull request 702"),
    Computed(
        "host-memory-short",
        "What stays in the host's memory fits there",
        Severity.warn,
        "1CatAI/1Cat-vLLM pull request 471",
    ),
    Computed(
        "locked-memory-short",
        "A process may lock what it has to",
        Severity.warn,
        "getrlimit(2), RLIMIT_MEMLOCK; 1CatAI/1Cat-vLLM pull request 646",
    ),
    Computed(
        "embedding-on-disk",
        "The n-gram embedding is where vLLM can read it",
        Severity.refuse,
        "vLLM 0.32 config/engram.py",
    ),
    Computed("capacity-estimate", "The capacity is known before the start", Severity.info, "docs/plan.md"),
    Computed("target-out-of-range", "A target means something", Severity.refuse, "docs/config.md, section 'limits'"),
    Computed(
        "target-and-memory", "A target has something to decide", Severity.refuse, "docs/config.md, section 'limits'"
    ),
    Computed("cache-target", "What a target comes to is said", Severity.info, "docs/config.md, section 'limits'"),
    Computed("capacity-not-reported", "The engine's log says its capacity", Severity.info, "docs/serve.md"),
    *(Computed(rule, title, Severity.refuse, "docs/serve.md") for rule, title in WORKERS_REFUSED),
    *(Computed(rule, title, Severity.warn, "docs/serve.md") for rule, title in WORKERS_WARNED),
    Computed("context-differs", "The engine serves the planned context", Severity.warn, "docs/serve.md"),
    Computed("capacity-differs", "The engine has the planned blocks", Severity.warn, "docs/serve.md"),
    Computed("checkpoint-unreadable", "The checkpoint can be read", Severity.refuse, "docs/doctor.md"),
    Computed(
        "draft-vocabulary",
        "A draft model has the model's vocabulary",
        Severity.refuse,
        "vLLM 0.32 config/speculative.py: verify_equal_vocab_size_if_draft_model",
    ),
    Computed("draft-not-here", "The draft model is on this machine", Severity.warn, "docs/serve.md"),
)
