"""Cases of rules about sharing, blocks, steps and arguments: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.planning.plan import Severity

config, on_v100, llama, hybrid, sparse = cases.config, cases.on_v100, cases.llama, cases.hybrid, cases.sparse
gpus = cases.gpu_machine()
NOTHING = cases.facts(config={})
LONG = {"limits__max_model_len": 262144}
BATCH, EXTRA = "limits__max_num_batched_tokens", "engine__extra_arguments"
FP8 = {"kv__dtype": "fp8_e4m3"}
INTERLEAVE = "use dcp.interleave=1"
ROUTE = "the fast route takes 8,000 to 8,192"
ONE_BLOCK = "the size of a block is not known"


def dcp(size=2, ranks=4, **changes):
    return on_v100(dcp__size=size, limits__tensor_parallel=ranks, **changes)


def no_shapes(rule, made):
    return waits(rule, "checkpoint", "the model's shapes are not known", made, checkpoint=NOTHING, machine=gpus)


def no_block(rule, where, made, checkpoint=NOTHING):
    return waits(rule, where, ONE_BLOCK, made, checkpoint=checkpoint, machine=gpus)


def slow(budget, block, rows, fix, **changes):
    says = f"steps of {budget:,} tokens in blocks of {block:,} prefill {rows:,} rows, and {ROUTE}"
    made = on_v100(**{**LONG, **FP8, BATCH: budget, **changes})
    return Case("chunk-loses-fast-prefill", ("limits.max_num_batched_tokens", says, fix), made, hybrid(), gpus)


def images(hardware=16935550976, extra=()):
    return on_v100(hardware__gpu_memory_bytes=hardware, engine__extra_arguments=list(extra))


VISION = {"depth": 1, "hidden_size": 1, "intermediate_size": 1, "num_heads": 1}
CASES = [
    *(
        Case(
            "dcp-needs-fewer-kv-heads",
            (
                "dcp.size",
                f"{heads} KV heads on {ranks} ranks are held {most} times each, so {size} ranks cannot share one",
                f"use dcp.size={most}, or at least limits.tensor_parallel={heads * size}",
            ),
            dcp(size, ranks),
            llama(num_key_value_heads=heads),
            gpus,
        )
        for size, ranks, heads, most in ((2, 4, 4, 1), (2, 2, 4, 1), (4, 4, 2, 2), (4, 8, 4, 2))
    ),
    *(
        Case("dcp-needs-fewer-kv-heads", None, dcp(size, ranks), llama(num_key_value_heads=heads), gpus)
        for size, ranks, heads in ((2, 4, 2), (2, 8, 4), (4, 4, 1), (2, 8, 2), (1, 1, 4))
    ),
    no_shapes("dcp-needs-fewer-kv-heads", dcp()),
    Case("dcp-needs-fewer-kv-heads", None, dcp(1), NOTHING, gpus),
    *(
        Case(
            "dcp-splits-queries",
            (
                "dcp.size",
                f"{12 // heads} query heads for each KV head do not divide over {size} ranks",
                "use dcp.size=1",
            ),
            dcp(size),
            llama(num_key_value_heads=heads),
            gpus,
        )
        for size, heads in ((2, 4), (4, 2))
    ),
    *(
        Case("dcp-splits-queries", None, dcp(size), llama(num_key_value_heads=heads), gpus)
        for size, heads in ((2, 2), (4, 1), (3, 4), (1, 4))
    ),
    no_shapes("dcp-splits-queries", dcp()),
    Case("dcp-splits-queries", None, dcp(1), NOTHING, gpus),
    *(
        Case(
            "dcp-with-sparse-attention",
            ("dcp.size", f"sparse attention shares a cache over 2 ranks, not over {size}", "use dcp=1 or dcp=2"),
            dcp(size, 8),
            sparse(),
            gpus,
        )
        for size in (3, 4)
    ),
    Case(
        "dcp-with-sparse-attention",
        ("dcp.interleave", "4 tokens in a row on each of 2 ranks do not fit into groups of 4", INTERLEAVE),
        dcp(dcp__interleave=4),
        sparse(),
        gpus,
    ),
    *(Case("dcp-with-sparse-attention", None, dcp(dcp__interleave=many), sparse(), gpus) for many in (1, 2)),
    Case("dcp-with-sparse-attention", None, dcp(4), llama(), gpus),
    Case("dcp-with-sparse-attention", None, dcp(1, dcp__interleave=8), sparse(), gpus),
    no_shapes("dcp-with-sparse-attention", dcp()),
    Case("dcp-with-sparse-attention", None, dcp(1), NOTHING, gpus),
    Case(
        "dcp-interleave",
        ("dcp.interleave", "blocks of 16 tokens do not divide into runs of 3", INTERLEAVE),
        dcp(dcp__interleave=3),
        llama(),
        gpus,
    ),
    Case(
        "dcp-interleave",
        ("dcp.interleave", "blocks of 16 tokens do not divide into runs of 32", INTERLEAVE),
        dcp(dcp__interleave=32),
        llama(),
        gpus,
    ),
    *(Case("dcp-interleave", None, dcp(dcp__interleave=many), llama(), gpus) for many in (1, 2, 16)),
    Case("dcp-interleave", None, dcp(1, dcp__interleave=3), llama(), gpus),
    Case("dcp-interleave", None, dcp(dcp__interleave=1), NOTHING, gpus),
    Case("dcp-interleave", None, dcp(1, dcp__interleave=3), NOTHING, gpus),
    no_block("dcp-interleave", "dcp.interleave", dcp(dcp__interleave=2)),
    no_block("dcp-interleave", "dcp.interleave", dcp(dcp__interleave=2, ranks=5), llama()),
    Case(
        "dcp-drafts-interleaved",
        (
            "dcp.interleave",
            "drafts cannot be verified on a cache that is dealt out in runs of several tokens",
            "use dcp.interleave=1 or speculative=none",
        ),
        dcp(dcp__interleave=2, speculative__method="ngram", speculative__tokens=1),
        machine=gpus,
    ),
    *(
        Case("dcp-drafts-interleaved", None, made, machine=gpus)
        for made in (
            dcp(dcp__interleave=1, speculative__method="ngram", speculative__tokens=1),
            dcp(1, dcp__interleave=2, speculative__method="ngram", speculative__tokens=1),
            dcp(dcp__interleave=2),
        )
    ),
    *(
        Case(
            "dcp-with-stages",
            (
                "engine.extra_arguments",
                "a cache that ranks share cannot be spread over 2 pipeline stages as well",
                "use dcp=1, or leave the pipeline argument out",
            ),
            dcp(engine__extra_arguments=extra),
            machine=gpus,
        )
        for extra in (["--pipeline-parallel-size", "2"], ["-pp=2"], ["-pp", "1", "-pp", "2"])
    ),
    *(
        Case("dcp-with-stages", None, dcp(size, engine__extra_arguments=extra), machine=gpus)
        for size, extra in ((1, ["-pp", "2"]), (2, ["-pp", "1"]), (2, []), (2, ["--x", "-pq", "2"]))
    ),
    *(
        Case(
            "block-size-unit",
            (
                "limits.block_size",
                f"{size} tokens are no multiple of {unit}, which the kernels take at a time",
                f"use limits.block_size={fits}",
            ),
            made(limits__block_size=size),
            machine=gpus,
        )
        for made, size, unit, fits in (
            (on_v100, 8, 16, 16),
            (on_v100, 40, 16, 48),
            (dcp, 1584, 32, 1600),
            (config, 16, 32, 32),
        )
    ),
    *(
        Case("block-size-unit", None, made, machine=gpus)
        for made in (
            on_v100(limits__block_size=16),
            dcp(limits__block_size=1600),
            config(limits__block_size=64),
            on_v100(),
        )
    ),
    Case(
        "state-grid",
        (
            "engine.extra_arguments",
            "a state every 8192 tokens and blocks of 784 never meet: no prefix is ever found",
            "use a multiple of 784, or leave --mamba-block-size out",
        ),
        on_v100(**{**LONG, EXTRA: ["--mamba-block-size", "8192"]}),
        hybrid(),
        gpus,
    ),
    Case(
        "state-grid",
        (
            "engine.extra_arguments",
            "--mamba-block-size needs prefix caching",
            "set limits.prefix_caching=true",
        ),
        on_v100(**{**LONG, EXTRA: ["--mamba-block-size=1568"], "limits__prefix_caching": False}),
        hybrid(),
        gpus,
    ),
    *(
        Case("state-grid", None, on_v100(**{**LONG, EXTRA: extra}), hybrid(), gpus)
        for extra in (["--mamba-block-size", "1568"], ["--mamba-block-size", "many"], ["--mamba-block-size"], [])
    ),
    Case("state-grid", None, on_v100(limits__prefix_caching=False), hybrid(), gpus),
    no_block("state-grid", "engine.extra_arguments", on_v100(**{EXTRA: ["--mamba-block-size", "8192"]})),
    *(
        Case(
            "prefix-grid-coarse",
            (
                "limits.prefix_caching",
                f"prefixes are reused in steps of {grid:,} tokens, and no request is longer: none ever is",
                "set limits.prefix_caching=false, which saves a state for each request",
            ),
            made,
            checkpoint,
            gpus,
        )
        for grid, made, checkpoint in (
            (784, on_v100(limits__max_model_len=784), hybrid()),
            (1568, dcp(limits__max_model_len=1568), hybrid()),
            (1568, dcp(limits__max_model_len=1568, **FP8), sparse()),
            (3136, dcp(limits__max_model_len=3136, dcp__packed_pages=False, **FP8), sparse()),
        )
    ),
    *(
        Case("prefix-grid-coarse", None, made, checkpoint, gpus)
        for made, checkpoint in (
            (on_v100(limits__max_model_len=785), hybrid()),
            (dcp(limits__max_model_len=1569, **FP8), sparse()),
            (on_v100(limits__max_model_len=784, limits__prefix_caching=False), hybrid()),
            (on_v100(limits__max_model_len=16), llama()),
            (on_v100(limits__prefix_caching=False), NOTHING),
        )
    ),
    no_block("prefix-grid-coarse", "limits.prefix_caching", on_v100()),
    no_block("prefix-grid-coarse", "limits.prefix_caching", on_v100(limits__tensor_parallel=5), hybrid()),
    slow(8192, 1568, 7840, "set limits.max_num_batched_tokens=8192 limits.block_size=1600"),
    slow(2048, 1568, 1568, "set limits.max_num_batched_tokens=8192 limits.block_size=1600"),
    slow(1000, 1568, 1000, "set limits.max_num_batched_tokens=8192 limits.block_size=1600"),
    slow(16384, 1568, 15680, "set limits.max_num_batched_tokens=8192 limits.block_size=1600"),
    slow(7999, 1, 7999, "set limits.max_num_batched_tokens=8192", limits__prefix_caching=False),
    slow(8193, 1, 8193, "set limits.max_num_batched_tokens=8192", limits__prefix_caching=False),
    slow(2048, 2048, 2048, "set limits.max_num_batched_tokens=8192 limits.block_size=2048", limits__block_size=2048),
    slow(4096, 8016, 4096, "set limits.max_num_batched_tokens=8192 limits.block_size=8016", limits__block_size=8016),
    slow(4096, 8192, 4096, "set limits.max_num_batched_tokens=8192 limits.block_size=8192", limits__block_size=8192),
    slow(
        4096,
        8208,
        4096,
        "set limits.max_num_batched_tokens=8192 limits.prefix_caching=false",
        limits__block_size=8208,
    ),
    slow(8192, 2752, 5504, "set limits.max_num_batched_tokens=8192 limits.block_size=4000", limits__block_size=2752),
    Case(
        "chunk-loses-fast-prefill",
        (
            "limits.max_num_batched_tokens",
            "steps of 2,048 tokens in blocks of 1 prefill 2,048 rows, and the fast route takes 8,000 to 8,192",
            "set limits.max_num_batched_tokens=8192",
        ),
        on_v100(limits__max_model_len=8000),
        llama(head_dim=256),
        gpus,
    ),
    *(
        Case("chunk-loses-fast-prefill", None, on_v100(**{**LONG, **FP8, BATCH: budget, **changes}), hybrid(), gpus)
        for budget, changes in (
            (8192, {"limits__block_size": 1600}),
            (8192, {"limits__block_size": 2048}),
            (8000, {"limits__prefix_caching": False}),
            (8192, {"limits__prefix_caching": False}),
            (2048, {"limits__max_model_len": 7999}),
            (2048, {"switches__prefill_split_kv": False}),
        )
    ),
    Case("chunk-loses-fast-prefill", None, on_v100(**LONG), llama(head_dim=128), gpus),
    Case("chunk-loses-fast-prefill", None, config(**LONG), hybrid()),
    no_block("chunk-loses-fast-prefill", "limits.max_num_batched_tokens", on_v100(**LONG)),
    no_block("chunk-loses-fast-prefill", "limits.max_num_batched_tokens", on_v100(limits__tensor_parallel=5), hybrid()),
    *(
        Case(
            "argument-beside-plan",
            (
                "engine.extra_arguments",
                f"{name} would overrule what the plan was made with",
                f"set {option} instead",
            ),
            config(**{EXTRA: extra}),
        )
        for name, option, extra in (
            ("--block-size", "limits.block_size", ["--x", "--block-size", "32"]),
            ("--kv-cache-dtype", "kv.dtype", ["--kv-cache-dtype=auto"]),
            ("-tp", "limits.tensor_parallel", ["-tp", "2"]),
            ("--max-model-len", "limits.max_model_len", ["--max_model_len=5"]),
            ("--block-size", "limits.block_size", ["--block", "32"]),
            ("--api-key", "server.api_key_file", ["--api-key=secret"]),
            ("--speculative-config", "speculative", ["--speculative_config.method=ngram"]),
        )
    ),
    Case("argument-beside-plan", None, config(**{EXTRA: ["--max-logprobs", "20", "--max", "x=--model"]})),
    *(
        Case(
            "graphs-too-small",
            (
                "limits.max_num_seqs",
                (
                    f"a step of all {requests} requests has {rows} rows, and graphs are captured up to {largest}: "
                    "larger steps run without"
                ),
                f"add --max-cudagraph-capture-size={rows} to engine.extra_arguments, or lower limits.max_num_seqs",
            ),
            on_v100(engine__compile=True, limits__max_num_seqs=requests, speculative__tokens=drafts, **{EXTRA: extra}),
            machine=gpus,
        )
        for requests, drafts, rows, largest, extra in (
            (513, 0, 513, 512, []),
            (65, 7, 520, 512, []),
            (8, 0, 8, 7, ["--max-cudagraph-capture-size", "7"]),
            (8, 0, 8, 4, ["--cudagraph-capture-sizes", "4", "1", "2", "--x", "9"]),
            (8, 1, 16, 8, ["--compilation-config", '{"cudagraph_capture_sizes": [8, 1]}']),
            (8, 0, 8, 2, ['-cc={"cudagraph_capture_sizes": [2]}']),
        )
    ),
    *(
        Case(
            "graphs-too-small",
            None,
            on_v100(engine__compile=compiled, limits__max_num_seqs=8, speculative__tokens=1, **{EXTRA: extra}),
            machine=gpus,
        )
        for compiled, extra in (
            (True, []),
            (True, ["--max-cudagraph-capture-size", "16"]),
            (True, ["--max-cudagraph-capture-size", "many"]),
            (True, ["--cudagraph-capture-sizes", "16"]),
            (True, ["--cudagraph-capture-sizes"]),
            (True, ["-cc", '{"cudagraph_capture_sizes": [1, 16]}']),
            (True, ["-cc", '{"cudagraph_capture_sizes": []}']),
            (True, ["-cc", '{"cudagraph_capture_sizes": ["1"]}']),
            (True, ["-cc", '{"mode": 3}']),
            (True, ["-cc", "{"]),
            (True, ["-cc", "3"]),
            (False, ["--max-cudagraph-capture-size", "1"]),
        )
    ),
    Case("graphs-too-small", None, on_v100(engine__compile=True, limits__max_num_seqs=512), machine=gpus),
    *(
        Case(
            "images-on-small-gpu",
            (
                "engine.extra_arguments",
                "the model takes images, whose encoder needs room that a 16 GB card hardly has",
                "add --language-model-only to engine.extra_arguments to serve text alone, or plan a shorter context",
            ),
            images(size, extra),
            checkpoint,
            gpus,
        )
        for size, checkpoint, extra in (
            (16935550976, hybrid(), ["--other"]),
            (1, llama(architectures=["LlamaForCausalLM"], vision_config=VISION), []),
            (17 * 10**9 - 1, llama(architectures=["LlavaForConditionalGeneration"]), []),
            (1, hybrid(), ["--limit-mm-per-prompt", '{"image": 4}']),
            (1, hybrid(), ['--limit-mm-per-prompt={"image": {"count": 1}}']),
            (1, hybrid(), ['--limit-mm-per-prompt={"video": 0}']),
            (1, hybrid(), ["--limit-mm-per-prompt=0"]),
            (1, hybrid(), ["--limit-mm-per-prompt={"]),
            (1, hybrid(), ["--limit-mm-per-prompt"]),
            (1, hybrid(), ["--limit-mm-per-prompt.image", "2"]),
        )
    ),
    *(
        Case("images-on-small-gpu", None, made, checkpoint, gpus)
        for made, checkpoint in (
            (images(17 * 10**9), hybrid()),
            (images(0), hybrid()),
            (images(extra=["--language-model-only"]), hybrid()),
            (images(extra=["--limit-mm-per-prompt", '{"image": 0}']), hybrid()),
            (images(extra=['--limit-mm-per-prompt={"image": 0}']), hybrid()),
            (images(extra=['--limit-mm-per-prompt={"image": {"count": 0}}']), hybrid()),
            (images(extra=["--limit-mm-per-prompt.image", "0"]), hybrid()),
            (images(), llama()),
            (images(0), NOTHING),
            (images(extra=["--language-model-only"]), NOTHING),
        )
    ),
    no_shapes("images-on-small-gpu", images()),
]
SEVERITIES = {
    "prefix-grid-coarse": Severity.warn,
    "chunk-loses-fast-prefill": Severity.warn,
    "graphs-too-small": Severity.warn,
    "images-on-small-gpu": Severity.warn,
}
