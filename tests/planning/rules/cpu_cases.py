"""Cases of the rules about the CPU engine's own variables: see rule_cases."""

import cases
from rule_cases import Case, waits

config, on_v100 = cases.config, cases.on_v100
SPACE, NODES = "kv-space-unreadable", "ranks-over-nodes"
BIND = "VLLM_CPU_OMP_THREADS_BIND"
SIMULATED = "VLLM_CPU_SIM_MULTI_NUMA"
ANYWHERE = f"+engine.environment.{BIND}=nobind lets threads run anywhere"


def space(text, made=config):
    return made(engine__environment={"VLLM_CPU_KVCACHE_SPACE": text})


def ranks(count, binding=None, made=config):
    return made(limits__tensor_parallel=count, engine__environment={} if binding is None else {BIND: binding})


def nodes(count):
    return cases.machine(numa_nodes=count)


CASES = [
    *(
        Case(
            SPACE,
            (
                "engine.environment.VLLM_CPU_KVCACHE_SPACE",
                f"'{text[:20]}' is no number of GiB from 1 to 1,048,576",
                "leave VLLM_CPU_KVCACHE_SPACE out and set limits.kv_cache_memory_bytes, which takes bytes",
            ),
            space(text),
        )
        for text in ("0", "-1", "0.5", "4g", "1048577", "9" * 400, "1" * 5000, " ")
    ),
    *(Case(SPACE, None, space(text)) for text in ("", "1", " 2 ", "1048576")),
    Case(SPACE, None, config()),
    Case(SPACE, None, space("0", on_v100)),
    Case(
        NODES,
        ("limits.tensor_parallel", "2 ranks want a memory node each, and this machine has 1", ANYWHERE),
        ranks(2),
        machine=nodes(1),
    ),
    Case(
        NODES,
        ("limits.tensor_parallel", "3 ranks want a memory node each, and this machine has 2", ANYWHERE),
        ranks(3, "auto"),
        machine=nodes(2),
    ),
    Case(
        NODES,
        (
            f"engine.environment.{BIND}",
            f"{BIND} has 1 list of cores and there are 2 ranks",
            "write a list for each rank, or nobind",
        ),
        ranks(2, "0-1"),
        machine=nodes(2),
    ),
    waits(
        NODES,
        "limits.tensor_parallel",
        "it is not known whether this machine has 2 memory nodes",
        ranks(2),
        fix=ANYWHERE,
        machine=nodes(None),
    ),
    *(
        Case(NODES, None, config(limits__tensor_parallel=2, engine__environment={SIMULATED: "1"}), machine=nodes(count))
        for count in (1, None)
    ),
    Case(
        NODES,
        ("limits.tensor_parallel", "2 ranks want a memory node each, and this machine has 1", ANYWHERE),
        config(limits__tensor_parallel=2, engine__environment={SIMULATED: "0"}),
        machine=nodes(1),
    ),
    Case(NODES, None, ranks(2), machine=nodes(2)),
    Case(NODES, None, ranks(1), machine=nodes(0)),
    Case(NODES, None, ranks(2, "nobind"), machine=nodes(1)),
    Case(NODES, None, ranks(2, "0|1"), machine=nodes(1)),
    Case(NODES, None, ranks(2, made=on_v100), machine=nodes(1)),
]
CASES += [
    *(
        Case(
            "fp8-heads-on-cpu",
            (
                "kv.dtype",
                f"the CPU engine's FP8 cache takes heads of a multiple of 32 elements, and these have {size}",
                "use kv=float16",
            ),
            config(kv__dtype=dtype),
            cases.llama(head_dim=size),
        )
        for size, dtype in ((80, "fp8_e4m3"), (33, "fp8_e5m2"), (16, "fp8_e4m3"))
    ),
    *(Case("fp8-heads-on-cpu", None, config(kv__dtype="fp8_e4m3"), cases.llama(head_dim=size)) for size in (32, 96)),
    Case("fp8-heads-on-cpu", None, config(), cases.llama(head_dim=80)),
    Case("fp8-heads-on-cpu", None, on_v100(kv__dtype="fp8_e4m3"), cases.llama(head_dim=80)),
    waits(
        "fp8-heads-on-cpu",
        "checkpoint",
        "the model's shapes are not known",
        config(kv__dtype="fp8_e4m3"),
        checkpoint=cases.facts(config={}),
    ),
]
SEVERITIES = {}
