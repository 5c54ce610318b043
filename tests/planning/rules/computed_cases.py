"""Cases of the findings that planning makes by itself (rules/computed.py), for mutate: see rule_cases.

Each calls the function that makes the finding, with what is just within a bound and just beyond it.
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import cases
from mutate import Subject

from toolkit.checkpoint.local import read_facts
from toolkit.config.schema.checkpoint import CheckpointSource, SourceKind
from toolkit.config.schema.limits import EmbeddingPlace
from toolkit.config.schema.overlay import OverlayConfig
from toolkit.config.schema.views import ViewsConfig
from toolkit.machine.facts import NO_LIMIT
from toolkit.planning import make, targets
from toolkit.planning.budget import Budget, Place, Term
from toolkit.planning.capacity import engine_log, plan_pool
from toolkit.planning.capacity.engine_log import Reported
from toolkit.planning.expected import ExpectedWorkers, ImportFolders
from toolkit.planning.geometry import read_geometry
from toolkit.planning.memory import fits
from toolkit.planning.memory.planner import KV
from toolkit.planning.plan import Capacity, Finding, Severity
from toolkit.planning.worker_report import ImportRoot, WorkerReport
from toolkit.serving import worker_imports, worker_reports
from toolkit.views import planned

sys.path.insert(0, str(Path(__file__).parents[2] / "views"))
from view_samples import make_base, pack_for, scales_for, write_pack

OF_WORKERS = (
    "attention", "capture-sizes", "compilation", "count", "engine", "gpu", "graphs", "imports", "kv-blocks", "kv-dtype",
    "missing", "mixed", "platform", "switches", "version",
)  # fmt: skip
EXEMPT = {
    "checkpoint-unreadable": "diagnosis.py passes on the error that it is, without a condition",
    **{f"workers-{name}": "said of a started engine's workers: tests/serving/test_worker_*.py" for name in OF_WORKERS},
}
"""Computed findings without cases here, each with the reason."""
config, on_v100 = cases.config, cases.on_v100
GIB = 2**30


def refused(rule, where, message, fix=""):
    return Finding(rule, Severity.refuse, where, message, fix)


def warned(rule, where, message, fix=""):
    return Finding(rule, Severity.warn, where, message, fix)


def noted(rule, where, message, fix=""):
    return Finding(rule, Severity.info, where, message, fix)


# What planning/make.py says.
OF_MAKE = {"capacity-unknown", "geometry-unknown", "memory-unknown", "kv-too-small", "draft-vocabulary"}
READ_IT = "hold the plan against the capacity and the memory that the engine's own log tells after its start"
NOT_KNOWN = "not known to the planner: {}; sizes that depend on them are not in the plan"
NOVEL = NOT_KNOWN.format("architecture 'NovelForCausalLM'")
PUBLISHED = "use the config.json that was published with the checkpoint"
BLOCK = 128 * 4 * 2 * 4 * 64 * 2
"""Bytes of one block: 128 tokens, 4 layers, keys and values, 4 heads of 64 elements, 2 bytes."""
NO_SIZE = "The key 'hidden_size' of the model's configuration must be a whole number of at least 1, not 0."
DRAFT = {"speculative__method": "draft_model", "speculative__tokens": 3}
FOLDER = {**DRAFT, "speculative__draft_path": "/drafts/one"}
HUB = {**DRAFT, "speculative__draft_repository": "a/b", "speculative__draft_revision": "1" * 40}

UNDESCRIBED = warned(
    "capacity-unknown",
    "speculative.draft_layers",
    "The draft model's KV cache is not described: speculative.draft_layers is not set.",
    "bring the draft to this machine, or set the draft's layers and its KV bytes for a token and layer",
)


def sizes(config, checkpoint, draft, space):
    found = space["_sizes"](config, checkpoint, cases.gpu_machine(), draft).findings
    return [finding for finding in found if finding.rule in OF_MAKE]


def draft_not_here(config, draft, space):
    return list(space["_draft_not_here"](config, draft))


def uncounted(*purposes):
    return noted(
        "memory-unknown", "memory of one rank", f"the plan does not decide, and does not count: {', '.join(purposes)}"
    )


def of_sizes(expected, config, checkpoint=None, draft=None):
    return partial(sizes, config, checkpoint or cases.facts(), draft), expected


def of_draft(expected, changes, draft):
    return partial(draft_not_here, config(**changes), draft), expected


def too_small(needed, fit):
    return refused(
        "kv-too-small",
        "limits.kv_cache_memory_bytes",
        f"one request of 4,096 tokens needs 33 blocks with the null block, and {fit} fit",
        f"use limits.kv_cache_memory_bytes={needed} at least, or a smaller limits.max_model_len",
    )


def cache(size, **changes):
    return config(limits__kv_cache_memory_bytes=size, limits__max_model_len=4096, **changes)


def gone(**changes):
    return cases.facts(present=False, root=None, files={}, **changes)


MAKE = (
    of_sizes([], cache(GIB)),
    of_sizes([], cache(33 * BLOCK)),
    of_sizes([too_small(33 * BLOCK, 32)], cache(33 * BLOCK - 1)),
    of_sizes([too_small(33 * BLOCK, 0)], cache(1)),
    of_sizes(
        [warned("geometry-unknown", "config.json", NOT_KNOWN.format("key 'kv_sharing_heads'"), READ_IT)],
        cache(GIB),
        cases.llama(architectures=["LlamaForCausalLM"], kv_sharing_heads=2),
    ),
    of_sizes(
        [
            warned(
                "geometry-unknown", "checkpoint.declared", NOT_KNOWN.format("architecture 'NovelForCausalLM'"), READ_IT
            )
        ],
        cache(GIB),
        gone(config={**cases.LLAMA, "architectures": ["NovelForCausalLM"]}),
    ),
    of_sizes([warned("capacity-unknown", "config.json", NO_SIZE, PUBLISHED)], cache(GIB), cases.llama(hidden_size=0)),
    of_sizes(
        [refused("capacity-unknown", "config.json", NO_SIZE, PUBLISHED)],
        config(limits__for_tokens=5000),
        cases.llama(hidden_size=0),
    ),
    of_sizes(
        [
            warned(
                "capacity-unknown",
                "config.json",
                "The model's configuration has no key 'vocab_size'.: planning needs it, and nothing else in the file "
                "says it",
                f"{PUBLISHED}, or declare the key in the recipe's checkpoint.declared",
            )
        ],
        cache(GIB),
        cases.llama(vocab_size=None),
    ),
    of_sizes([uncounted("KV cache and recurrent state")], on_v100()),
    of_sizes(
        [
            uncounted("draft model"),
            refused(
                "draft-vocabulary",
                "speculative",
                "the draft has 99 tokens and the model 49,152",
                "choose a draft of the same vocabulary",
            ),
        ],
        cache(GIB, **FOLDER),
        draft=cases.llama(vocab_size=99),
    ),
    of_sizes([uncounted("draft model")], cache(GIB, **FOLDER), draft=cases.llama()),
    of_sizes([UNDESCRIBED], cache(GIB, **FOLDER), draft=cases.facts(config={})),
    of_sizes([], cache(GIB), draft=cases.llama(vocab_size=99)),
    of_draft([], {}, None),
    of_draft([], FOLDER, cases.facts()),
    of_draft(
        [
            refused(
                "draft-not-here",
                "speculative.draft_path",
                "the folder /drafts/one does not exist",
                "name the draft's folder",
            )
        ],
        FOLDER,
        gone(),
    ),
    of_draft(
        [
            warned(
                "draft-not-here",
                "speculative.draft_repository",
                "a/b is not, or not wholly, on this machine, and serve fetches no drafts",
                f"hf download a/b --revision {'1' * 40}",
            )
        ],
        HUB,
        gone(),
    ),
)
# What planning/memory/fits.py says: rules, places and the numbers of each message.
CAPACITY = Capacity(128, 2**20, None, 9, None, None)
"""Ten MiB for one full request and the null block."""
TOLD = Capacity(128, 2**20, 10, 9, 1280, 1.0)


def memory(config, budget, capacity, machine, space):
    return list(space["memory_findings"](config, budget, capacity, machine))


def of_memory(expected, config, *terms, capacity=CAPACITY, machine=None):
    return partial(memory, config, Budget(terms), capacity, machine or cases.gpu_machine()), expected


def gpu(size, **changes):
    changes = {"hardware__gpu_memory_bytes": size, "limits__gpu_memory_utilization": 0.5, **changes}
    return on_v100(limits__max_model_len=1152, **changes)


def weights(size, margin=0.0, **changes):
    return Term("weights", size, "", margin, **changes)


def table(place, size=GIB, locked=False):
    return Term("n-gram embedding", size, "", place=place, locked=locked)


def short(needed, limit):
    return refused(
        "gpu-memory-short",
        "memory of one rank",
        f"{needed} GiB are needed at the least, and the engine may take {limit} GiB of a GPU",
        "plan fit=true proposes changes that make it fit",
    )


def tight(needed, most, limit):
    return warned(
        "gpu-memory-tight",
        "memory of one rank",
        f"{needed} GiB are needed, {most} GiB with all margins, and the engine may take {limit} GiB of a GPU",
        "leave more room: a shorter context, fewer sequences, a smaller cache",
    )


def estimate(limit, least, most, tokens, requests):
    return noted(
        "capacity-estimate",
        "limits.gpu_memory_utilization",
        f"{limit} GiB of a GPU leave {least} to {most} GiB for the cache: {tokens} tokens, {requests} full "
        "requests at once",
        "limits.for_tokens or limits.for_concurrency give the engine exact bytes",
    )


def share(rule, asked, takes, left, fitting):
    return rule(
        "gpu-share-tight" if rule is warned else "gpu-share-short",
        "limits.gpu_memory_utilization",
        f"the engine asks for {asked} of a GPU to be free once CUDA context are there, which take {takes} GiB; {left} "
        "GiB are left beside that share",
        f"set limits.gpu_memory_utilization={fitting}, also where the cache's bytes are told",
    )


def beside(expected, asked, size, margin=0.0, made=None):
    """A deployment of 2 GiB whose cache is told, and what is taken before the engine looks."""
    config = made or gpu(WHOLE, **HALF, limits__gpu_memory_utilization=asked)
    terms = (Term("CUDA context", size, "", margin, beside_share=True), Term(KV, 1, ""))
    return of_memory(expected, config, *terms, capacity=TOLD)


TEN, WHOLE, HALF = 10 * 2**20, 2 * GIB, {"limits__kv_cache_memory_bytes": GIB // 2}
FREE = {"limits__ngram_embedding": EmbeddingPlace.pinned}
NO_DISK = refused(
    "embedding-on-disk",
    "limits.ngram_embedding",
    "vLLM 0.32.0 keeps the n-gram embedding's table on GPUs or in locked memory, not on disk",
    "limits.ngram_embedding=pinned or gpu",
)


def host_short(needed, has):
    return warned(
        "host-memory-short",
        "limits.ngram_embedding",
        f"{needed} GiB stay in the machine's memory, which has {has} GiB",
        "limits.ngram_embedding=gpu if the GPUs have room, or a machine with more memory",
    )


def locked_short(needed, may):
    return warned(
        "locked-memory-short",
        "ulimit -l",
        f"each rank locks {needed} GiB of host memory, and a process may lock {may} GiB",
        "ulimit -l unlimited (LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 with docker)",
    )


def unchecked(rule, where, fact):
    return Finding(rule, Severity.unchecked, where, f"not checked, as {fact}")


def has(**changes):
    return cases.gpu_machine(**changes)


FITS = (
    of_memory([], config(), weights(10**15)),
    of_memory([], gpu(0), weights(10**15)),
    of_memory([], gpu(-1), weights(10**15)),
    of_memory([estimate("0.00", "0.00", "0.00", "0 to 0", "0.00 to 0.00"), short("0.01", "0.00")], gpu(1), weights(1)),
    of_memory([estimate("1.00", "0.01", "0.01", "1,280 to 1,280", "1.11 to 1.11")], gpu(WHOLE), weights(GIB - TEN)),
    of_memory(
        [estimate("1.00", "0.01", "0.01", "1,152 to 1,152", "1.00 to 1.00"), short("1.00", "1.00")],
        gpu(WHOLE),
        weights(GIB - TEN + 1),
    ),
    of_memory(
        [estimate("1.00", "0.00", "0.00", "0 to 0", "0.00 to 0.00"), short("2.01", "1.00")], gpu(WHOLE), weights(WHOLE)
    ),
    of_memory(
        [estimate("1.00", "0.25", "0.50", "32,768 to 65,536", "28.44 to 56.89")],
        gpu(WHOLE),
        weights(GIB // 2, 0.5),
    ),
    of_memory(
        [estimate("1.00", "0.00", "0.50", "0 to 65,536", "0.00 to 56.89"), tight("0.51", "1.01", "1.00")],
        gpu(WHOLE),
        weights(GIB // 2, 1.0),
    ),
    of_memory(
        [tight("2.00", "2.00", "2.00")],
        gpu(WHOLE, **HALF),
        weights(WHOLE - GIB // 2),
        Term("CUDA graphs", 1, "", estimate=True),
        Term(KV, GIB // 2, ""),
        capacity=TOLD,
    ),
    of_memory(
        [short("2.00", "2.00")],
        gpu(WHOLE, **HALF),
        weights(WHOLE - GIB // 2 + 1),
        Term("CUDA graphs", GIB, "", estimate=True),
        Term(KV, GIB // 2, ""),
        capacity=TOLD,
    ),
    of_memory([], gpu(WHOLE, **HALF), weights(WHOLE - GIB // 2), Term(KV, GIB // 2, ""), capacity=TOLD),
    of_memory(
        [short("2.00", "2.00")],
        gpu(WHOLE, **HALF),
        weights(WHOLE - GIB // 2 + 1),
        Term(KV, GIB // 2, ""),
        capacity=TOLD,
    ),
    of_memory(
        [tight("2.00", "2.25", "2.00")],
        gpu(WHOLE, **HALF),
        weights(GIB),
        Term("activations", GIB // 2, "", 0.5),
        Term(KV, GIB // 2, ""),
        capacity=TOLD,
    ),
    beside([], 0.5, GIB),
    beside([share(refused, "0.5", "1.00 to 1.00", "1.00", 0.49)], 0.5, GIB + 1),
    beside([share(refused, "0.75", "1.00 to 1.25", "0.50", 0.37)], 0.75, GIB, 0.25),
    beside([share(warned, "0.5", "1.00 to 1.25", "1.00", 0.37)], 0.5, GIB, 0.25),
    beside([share(refused, "1", "0.25 to 0.25", "0.00", 0.87)], 1.0, GIB // 4),
    beside([short("3.00", "2.00"), share(refused, "0", "3.00 to 3.00", "2.00", 0.0)], 0.0, 3 * GIB),
    beside([], 1.5, GIB),
    beside([short("4.00", "2.00")], -0.5, 4 * GIB),
    beside([], 0.5, 3 * GIB, made=config()),
    beside([], 0.5, 3 * GIB, made=gpu(0, **HALF)),
    of_memory([], gpu(WHOLE, **HALF, limits__gpu_memory_utilization=1.0), weights(GIB), capacity=TOLD),
    of_memory([], on_v100(**FREE), table(Place.host, GIB), machine=has(memory_bytes=4 * GIB)),
    of_memory([host_short("4.00", "4.00")], on_v100(**FREE), table(Place.host), machine=has(memory_bytes=4 * GIB - 1)),
    of_memory([], config(**FREE), table(Place.host), machine=has(memory_bytes=1)),
    of_memory(
        [unchecked("host-memory-short", "limits.ngram_embedding", "this machine's memory could not be read")],
        on_v100(**FREE),
        table(Place.host),
        machine=has(memory_bytes=0, unread={"memory": "lost"}),
    ),
    of_memory([], on_v100(**FREE), weights(1), machine=has(memory_bytes=0, unread={"memory": "lost"})),
    of_memory([], on_v100(**FREE), weights(1), machine=has(lockable_bytes=None)),
    of_memory(
        [unchecked("locked-memory-short", "ulimit -l", "it is not known how much a process may lock")],
        on_v100(**FREE),
        table(Place.host, locked=True),
        machine=has(lockable_bytes=None),
    ),
    of_memory([], on_v100(**FREE), table(Place.host, locked=True), machine=has(lockable_bytes=NO_LIMIT)),
    of_memory([], on_v100(**FREE), table(Place.host, locked=True), machine=has(lockable_bytes=GIB)),
    of_memory(
        [locked_short("1.00", "1.00")],
        on_v100(**FREE),
        table(Place.host, locked=True),
        machine=has(lockable_bytes=GIB - 1),
    ),
    of_memory(
        [locked_short("1.00", "0.00")], on_v100(**FREE), table(Place.host, locked=True), machine=has(lockable_bytes=0)
    ),
    of_memory([NO_DISK], on_v100(limits__ngram_embedding=EmbeddingPlace.disk), table(Place.disk)),
    of_memory([], on_v100(limits__ngram_embedding=EmbeddingPlace.disk), weights(1)),
    of_memory([], on_v100(**FREE), table(Place.disk)),
)
# What planning/targets.py says.
LLAMA = read_geometry(cases.LLAMA)


def wrong(config, space):
    return list(space["wrong_targets"](config))


def met(config, space):
    return list(space["meet"](config, LLAMA, None).findings)


def of_targets(expected, **changes):
    return partial(wrong, config(**changes)), expected


def of_meeting(expected, **changes):
    return partial(met, config(limits__max_model_len=4096, limits__kv_cache_memory_bytes=None, **changes)), expected


def no_target(name, value, most, some):
    where = f"limits.{name}"
    message = f"{value} is no target: it lies above 0 and is at most {most}"
    return refused("target-out-of-range", where, message, f"name one that is, such as {where}={some}, or none")


def nothing_to_decide(where):
    return refused(
        "target-and-memory",
        where,
        "the cache's bytes are given already, so a target has nothing to decide",
        "limits.kv_cache_memory_bytes=null (and on engine=cpu no VLLM_CPU_KVCACHE_SPACE), or no target",
    )


def comes_to(where, takes, blocks, tokens, requests):
    size = blocks * BLOCK
    message = f"{takes} {size:,} bytes on each rank: {tokens} tokens, {requests} full requests at once"
    return noted("cache-target", where, message)


TOKENS, REQUESTS, GIVEN = "limits.for_tokens", "limits.for_concurrency", {"limits__kv_cache_memory_bytes": GIB}
LESS = "is less than the engine starts with (one full request and the null block); that takes"
SPACE = {"engine__environment": {"VLLM_CPU_KVCACHE_SPACE": "1"}}
TARGETS = (
    of_targets([]),
    of_targets([], **GIVEN),
    of_targets([], limits__for_tokens=1),
    of_targets([], limits__for_tokens=10**12, limits__for_concurrency=10.0**6),
    of_targets([no_target("for_tokens", 0, "1,000,000,000,000", 4096)], limits__for_tokens=0),
    of_targets([no_target("for_tokens", 0, "1,000,000,000,000", 1)], limits__for_tokens=0, limits__max_model_len=0),
    of_targets([no_target("for_tokens", 10**12 + 1, "1,000,000,000,000", 4096)], limits__for_tokens=10**12 + 1),
    of_targets(
        [no_target("for_concurrency", 0.0, "1,000,000", 8)], limits__for_concurrency=0.0, limits__max_num_seqs=8
    ),
    of_targets(
        [no_target("for_concurrency", 1000000.5, "1,000,000", 8)],
        limits__for_concurrency=1000000.5,
        limits__max_num_seqs=8,
    ),
    of_targets([nothing_to_decide(TOKENS)], limits__for_tokens=5, **GIVEN),
    of_targets([nothing_to_decide(REQUESTS)], limits__for_concurrency=5.0, **GIVEN),
    of_targets([nothing_to_decide(REQUESTS)], limits__for_concurrency=5.0, **SPACE),
    of_meeting([]),
    of_meeting([comes_to(TOKENS, "limits.for_tokens=8192 takes", 64, "8,192", "2.00")], limits__for_tokens=8192),
    of_meeting(
        [comes_to(REQUESTS, "limits.for_concurrency=2 takes", 64, "8,192", "2.00")], limits__for_concurrency=2.0
    ),
    of_meeting(
        [comes_to(REQUESTS, "limits.for_concurrency=3 takes", 96, "12,288", "3.00")],
        limits__for_concurrency=3.0,
        limits__for_tokens=8192,
    ),
    of_meeting([comes_to(TOKENS, f"limits.for_tokens=1 {LESS}", 33, "4,224", "1.03")], limits__for_tokens=1),
    of_meeting([comes_to(TOKENS, "limits.for_tokens=4224 takes", 33, "4,224", "1.03")], limits__for_tokens=4224),
)
# What planning/capacity/engine_log.py says.
POOL = plan_pool(config(limits__max_model_len=4096), LLAMA, None)
"""32 blocks for one request of 4,096 tokens."""


def compared(planned, reported, space):
    found = space["compare"](planned, 4096, reported)
    return [*found.findings, found.blocks_apart]


def of_log(expected, planned, reported, apart=None):
    return partial(compared, planned, reported), [*expected, apart]


def reports(blocks, length=4096, gib=None):
    return Reported(blocks * 128, length, blocks / 32, gib)


def differs(tokens, blocks, apart, expected):
    return warned(
        "capacity-differs",
        "the engine's log",
        f"it reports a KV cache of {tokens} tokens ({blocks:,} blocks), {apart} than {expected}",
        "go by the engine's number; an argument or a variable that the plan does not know changed it, or the plan's "
        "formula does not fit this engine, which is a bug to report with the receipt",
    )


PLANNED, PROFILED = POOL.capacity(100 * BLOCK), POOL.capacity(None)
AS_PLANNED = "planned (12,800 tokens, 100 blocks)"
LOG = (
    of_log(
        [
            noted(
                "capacity-not-reported",
                "the engine's log",
                "it has no line with the size of the KV cache, so the plan's number is not confirmed",
            )
        ],
        PLANNED,
        None,
    ),
    of_log(
        [
            warned(
                "context-differs",
                "the engine's log",
                "it serves requests of 2,048 tokens, and 4,096 were planned",
                "look for what shortened them in the log, or set limits.max_model_len to the engine's number",
            )
        ],
        PLANNED,
        reports(100, 2048),
    ),
    of_log([], None, reports(7)),
    *(of_log([], PLANNED, reports(100 + apart), apart) for apart in (-1, 0, 1)),
    of_log([differs("13,056", 102, "2 blocks more", AS_PLANNED)], PLANNED, reports(102), 2),
    of_log([differs("12,544", 98, "2 blocks fewer", AS_PLANNED)], PLANNED, reports(98), -2),
    of_log([], PROFILED, reports(7)),
    *(
        of_log([], PROFILED, reports(blocks, gib=1.0), apart)
        for blocks, apart in ((2036, -1), (2037, 0), (2048, 0), (2058, 0), (2059, 1))
    ),
    of_log([differs("263,680", 2060, "2 blocks more", "1.00 GiB hold")], PROFILED, reports(2060, gib=1.0), 2),
    of_log([differs("260,480", 2035, "2 blocks fewer", "1.00 GiB hold")], PROFILED, reports(2035, gib=1.0), -2),
)


# What serving/worker_imports.py says.
SITE, ADDED = "/engine/lib/site-packages", "/added"
FOLDERS = ImportFolders(("/engine/lib",), (SITE,), (ADDED, f"{SITE}/nested", "/engine", "/checkout"), "/checkout")


def imported(roots, folders, space):
    reports = [WorkerReport(0, 1, 1, "cpu", {}, {}, imports=tuple(ImportRoot(*root) for root in roots))]
    return list(space["added_findings"](reports, ExpectedWorkers("cpu", "Platform", folders)))


def of_imports(expected, *roots, folders=FOLDERS):
    return partial(imported, roots, folders), expected


def added(names, folder):
    return warned(
        "workers-added-imports",
        "engine.environment.PYTHONPATH",
        f"the workers imported {names} from {folder}, which comes before the environment's own",
        "install what is meant into the environment, and leave PYTHONPATH alone",
    )


IMPORTS = (
    of_imports([], (SITE, ("vllm",), 1)),
    of_imports([], (f"{SITE}/nested", ("vllm",), 1)),
    of_imports([], ("/engine/lib/json", ("json",), 1)),
    of_imports([], ("/checkout", ("toolkit",), 1)),
    of_imports([], ("/elsewhere", ("vllm",), 1)),
    of_imports([], (ADDED, ("vllm",), 1), folders=None),
    of_imports([added("vllm", ADDED)], (ADDED, ("vllm",), 1)),
    of_imports([added("vllm and 1 more", ADDED)], (ADDED, ("vllm",), 2)),
    of_imports([added("vllm", ADDED)], (ADDED, ("vllm",), 0)),
    of_imports([added("vllm", "/engine/lib/x/site-packages")], ("/engine/lib/x/site-packages", ("vllm",), 1)),
    of_imports(
        [added("a", "/added/one"), added("b, c", "/added/two")],
        ("/added/two", ("c",), 1),
        ("/added/two", ("b",), 1),
        ("/added/one", ("a",), 1),
    ),
)
# What serving/worker_reports.py says.


def reported_after(requests, space):
    reports = [WorkerReport(rank, 3, 1, "cpu", {}, {}, requests=count) for rank, count in enumerate(requests)]
    return list(space["early_findings"](reports))


def early(ranks):
    message = f"what rank {ranks} reports is from before the first answer, so what that took is not in it"
    return warned("workers-report-early", "workers", message, "look for its warnings in the log")


REPORTS = tuple(
    (partial(reported_after, requests), expected)
    for requests, expected in (((0, 1, 0), [early("0, 2")]), ((1, 2, 0), [early("2")]), ((1, 1, 1), []), ((), []))
)
# What views/planned.py says.
MATCHING = "use the checkpoint's revision that the pack names, or calibrate this one"


def views(folder):
    """What views/planned.py says, of checkpoints and packs that are made in a folder."""
    base, other = make_base(folder / "base"), make_base(folder / "other", layers=3)
    packs = {name: write_pack(folder / name, pack_for(of, scales_for(count))) for name, of, count in (
        ("fitting", base, 2), ("unfit", other, 3),
    )}  # fmt: skip
    facts = read_facts(base, "tiny")
    where = config(checkpoint__name="tiny", checkpoint__source=CheckpointSource(SourceKind.local, str(base)))
    where.views = ViewsConfig(root=str(folder / "views"))

    def of_view(expected, overlay, checkpoint=facts):
        made = cases.deepcopy(where)
        made.overlay = overlay
        return partial(seen, made, checkpoint), expected

    def seen(config, checkpoint, space):
        found = space["planned_view"](config, checkpoint)
        told = [replace(one, message=one.message.partition(" measured on ")[0]) for one in found.findings]
        return [*told, found.view.path is not None]  # folders and digests differ from run to run

    unfit = "Base checkpoint revision does not match the scale pack: the pack was"
    later = "the scale pack is not on this machine yet, so its view is not known; serve fetches it"
    later = noted("pack-not-here-yet", "overlay", later)
    unfit = refused("view-unfit", "measured", unfit, MATCHING)
    published = OverlayConfig("published", None, "none/here", "1" * 40)
    return (
        of_view([True], OverlayConfig()),
        of_view([True], OverlayConfig(path=str(packs["fitting"]))),
        of_view([unfit, False], OverlayConfig(path=str(packs["unfit"]))),
        of_view([later, False], published),
        of_view([False], published, gone()),
        of_view([False], published, cases.facts(root=None)),
        of_view([True], published, cases.facts(present=False)),
    )


def subjects(folder):
    """The functions that make computed findings, with their cases; `folder` is empty and stays as long as they do."""
    return (
        Subject("planning/make.py", make, ("_sizes", "_draft_not_here"), MAKE),
        Subject("planning/memory/fits.py", fits, ("memory_findings",), FITS),
        Subject("planning/targets.py", targets, ("wrong_targets", "meet"), TARGETS),
        Subject("planning/capacity/engine_log.py", engine_log, ("compare",), LOG),
        Subject("serving/worker_imports.py", worker_imports, ("added_findings",), IMPORTS),
        Subject("serving/worker_reports.py", worker_reports, ("early_findings",), REPORTS),
        Subject("views/planned.py", planned, ("planned_view",), views(folder), ("view_facts", "_tensors")),
    )
