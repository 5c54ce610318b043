"""Rules about the GPUs: the driver, which of them are seen, how they reach each other, and who holds them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from toolkit.config.schema.engine import EngineName
from toolkit.machine.facts import Gpu
from toolkit.machine.visible_devices import entries
from toolkit.planning.extra_arguments import given
from toolkit.planning.memory.communicators import nccl_term
from toolkit.planning.memory.driver import context_term
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, unknown

Version = tuple[int, ...]
OLDEST_DRIVER: Version = (525, 60, 13)
"""CUDA 12 runs on no older one, whatever its minor version."""
CUDA_12_8_DRIVER: Version = (570, 26)
"""The driver that came with CUDA 12.8; an older one loads its cubins and cannot compile its PTX."""
LAST_WITH_VOLTA = 580
"""The last branch of the driver that supports compute capability 7.0."""
SMALLEST_SHARED_MEMORY = 2**30
RESERVED_PART = 50
"""Of a GPU's memory, the part that the driver reserves at the most: one 70th of a 16 GB V100, one 120th of a 32 GB."""
SAME_SIZE = 0.03
"""Share by which the memory of two cards of one kind may differ."""
CURE = "set ++engine.environment.NCCL_P2P_DISABLE=1 and add --disable-custom-all-reduce to engine.extra_arguments"


def on_gpu(context: Context) -> bool:
    """Whether GPUs matter to this deployment."""
    return context.config.engine.name is EngineName.v100


def ranks_gpus(context: Context) -> Sequence[Gpu]:
    """The GPUs that the ranks take: the first ones."""
    return context.machine.gpus[: context.config.limits.tensor_parallel]


def version_of(text: str) -> Version:
    """A dotted version; what is no number ends it."""
    parts = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        parts.append(int(part))
    return tuple(parts)


def driver_too_old(context: Context) -> Iterator[Problem]:
    """CUDA 12's libraries do not start on a driver of CUDA 11."""
    driver = context.machine.driver
    if not on_gpu(context) or not context.machine.gpus:
        return
    if driver is None:
        yield unknown("driver", "the driver's version could not be read")
    elif version_of(driver) < OLDEST_DRIVER:
        yield Problem(
            "driver",
            f"driver {driver} is older than CUDA 12 needs, which is 525.60.13",
            "install a driver of branch R580",
        )


def driver_before_cuda(context: Context) -> Iterator[Problem]:
    """A driver older than the CUDA that the programs were built with compiles none of their PTX."""
    driver = context.machine.driver
    if not on_gpu(context) or not context.machine.gpus or driver is None:
        return  # driver-too-old says so
    if OLDEST_DRIVER <= version_of(driver) < CUDA_12_8_DRIVER:
        yield Problem(
            "driver",
            f"driver {driver} is older than CUDA 12.8, which came with 570.26: code compiled at run time may fail",
            "install a driver of branch R570 or R580",
        )


def driver_without_volta(context: Context) -> Iterator[Problem]:
    """Newer branches of the driver do not see a V100 at all."""
    machine = context.machine
    if on_gpu(context) and machine.driver is not None and not machine.gpus and "gpus" not in machine.unread:
        branch = version_of(machine.driver)[:1]
        if branch > (LAST_WITH_VOLTA,):
            yield Problem(
                "driver",
                f"driver {machine.driver} sees no GPU here, and R580 was the last branch that supports a V100",
                "install a driver of branch R580",
            )


def driver_library_differs(context: Context) -> Iterator[Problem]:
    """Programs load the kernel module's own library; another is left over, or meant for forward compatibility."""
    module, library = context.machine.driver, context.machine.driver_library
    if not on_gpu(context) or module is None:
        return
    if library is None:
        yield unknown("driver", "no libcuda was found where programs look for it", "install the driver's libraries")
    elif module != library:
        yield Problem(
            "driver",
            f"the kernel runs driver {module} and programs load libcuda {library}, which may end with error 803 or 804",
            "reboot after a driver update; in a container, remove the cuda-compat libraries if CUDA does not start",
        )


def visible_devices(context: Context) -> Iterator[Problem]:
    """CUDA stops reading the variable at the first entry that names no GPU, and vLLM wants whole UUIDs."""
    text, gpus = context.machine.visible_devices, context.machine.gpus
    if not on_gpu(context) or not text or "gpus" in context.machine.unread:
        return
    named = entries(text)
    if len(gpus) < len(named):
        where, fix = (
            "CUDA_VISIBLE_DEVICES",
            "list each GPU once, by index or by whole UUID; `nvidia-smi -L` prints both",
        )
        twice = next((entry for entry in named if named.count(entry) > 1), None)
        if twice is None or gpus:
            entry = named[len(gpus)]
            yield Problem(where, f"its entry '{entry}' names no GPU, so it and all after it are ignored", fix)
        else:
            yield Problem(where, f"it names '{twice}' twice, and CUDA then shows no GPU at all", fix)
    for entry, gpu in zip(named, gpus, strict=False):
        if entry.startswith("GPU-") and entry != gpu.uuid:
            yield Problem(
                "CUDA_VISIBLE_DEVICES",
                f"'{entry}' is a part of a UUID, which CUDA takes and vLLM does not find",
                f"write {gpu.uuid}",
            )


def device_order(context: Context) -> Iterator[Problem]:
    """CUDA counts the fastest card first, everything else counts by slot."""
    machine = context.machine
    if on_gpu(context) and len({gpu.name for gpu in machine.gpus}) > 1 and machine.device_order != "PCI_BUS_ID":
        yield Problem(
            "CUDA_DEVICE_ORDER",
            "the cards differ, and CUDA numbers them by speed, not as nvidia-smi does",
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID in the shell",
        )


def gpus_differ(context: Context) -> Iterator[Problem]:
    """Every rank gets as much as the smallest card has, and waits for the slowest."""
    kinds = {(gpu.name, gpu.memory_bytes) for gpu in ranks_gpus(context)}
    if on_gpu(context) and len(kinds) > 1:
        names = " and ".join(f"{name} ({size / 2**30:.1f} GiB)" for name, size in sorted(kinds))
        yield Problem(
            "CUDA_VISIBLE_DEVICES",
            f"the ranks' cards differ: {names}; the smallest and slowest decides for all",
            "choose cards of one kind with CUDA_VISIBLE_DEVICES",
        )


def gpu_memory_taken(context: Context) -> Iterator[Problem]:
    """The engine asks for its share of a GPU's whole memory, and starts only where that much is free by then.

    It looks once its own context and communicators are made, which take at least what their terms say.
    """
    share = context.config.limits.gpu_memory_utilization
    if not on_gpu(context) or not abs(share) <= 1:  # utilization-range says so
        return
    begun = context_term().bytes
    if context.geometry is not None:
        begun += nccl_term(context.config, context.geometry).bytes
    for gpu in ranks_gpus(context):
        shown = _shown_to_programs(gpu)
        asked, free = math.ceil(shown * share), gpu.free_bytes - begun
        if free < asked:
            fitting = math.floor(free / shown * 100) / 100
            lower = f", or set limits.gpu_memory_utilization={fitting}" if fitting > 0 else ""
            yield Problem(
                f"GPU {gpu.index}",
                f"{asked / 2**30:.2f} GiB are asked for, and of the {gpu.free_bytes / 2**30:.2f} GiB that are free the "
                f"engine takes {begun / 2**30:.2f} GiB before it looks",
                f"end what holds it{lower}",
            )


def _shown_to_programs(gpu: Gpu) -> int:
    """Bytes that CUDA calls a GPU's memory; the least where the driver does not say how much it reserves."""
    reserved = gpu.reserved_bytes
    return gpu.memory_bytes - (gpu.memory_bytes // RESERVED_PART if reserved is None else reserved)


def hardware_differs(context: Context) -> Iterator[Problem]:
    """The plan was made for the profile's GPUs, and these are others."""
    hardware, gpus = context.config.hardware, ranks_gpus(context)
    if not on_gpu(context) or not gpus or hardware.gpu_memory_bytes <= 0:
        return
    smallest = min(gpu.memory_bytes for gpu in gpus)
    if abs(smallest - hardware.gpu_memory_bytes) > hardware.gpu_memory_bytes * SAME_SIZE:
        yield Problem(
            "hardware",
            f"the profile has GPUs of {hardware.gpu_memory_bytes / 2**30:.1f} GiB, and these have "
            f"{smallest / 2**30:.1f} GiB",
            "choose the profile of this machine; conf/hardware lists them",
        )
    indices = {gpu.index for gpu in gpus}
    paths = {link.path for link in context.machine.links or () if {link.first, link.second} <= indices}
    if hardware.interconnect == "nvlink" and paths and "nvlink" not in paths:
        yield Problem(
            "hardware",
            "the profile has NVLink, and no two of these GPUs are linked by it",
            "choose a profile with hardware.interconnect=pcie",
        )


def peer_access_missing(context: Context) -> Iterator[Problem]:
    """Ranks that cannot read each other's memory need to be told so."""
    gpus, links = ranks_gpus(context), context.machine.links
    if not on_gpu(context) or len(gpus) < 2 or _peers_are_off(context):
        return
    if links is None:
        yield unknown("GPUs", "it is not known which GPUs reach each other", "run nvidia-smi topo -p2p r")
        return
    indices = {gpu.index for gpu in gpus}
    for link in links:
        if {link.first, link.second} <= indices and not link.peer_access:
            yield Problem(
                f"GPUs {link.first} and {link.second}",
                f"they cannot reach each other's memory (paths meet at: {link.path}), and two ranks may crash or hang",
                CURE,
            )


def _peers_are_off(context: Context) -> bool:
    engine = context.config.engine
    return engine.environment.get("NCCL_P2P_DISABLE") == "1" and given(
        engine.extra_arguments, "--disable-custom-all-reduce"
    )


def over_nodes(context: Context) -> Iterator[Problem]:
    """Ranks on several processors talk through the link between them."""
    nodes = {gpu.numa_node for gpu in ranks_gpus(context)} - {None}
    if on_gpu(context) and len(nodes) > 1:
        yield Problem(
            "GPUs", f"the ranks' GPUs hang on {len(nodes)} memory nodes: {', '.join(map(str, sorted(nodes, key=str)))}"
        )


def shared_memory_small(context: Context) -> Iterator[Problem]:
    """Ranks talk through /dev/shm, of which a container has 64 MiB unless it is given more."""
    size = context.machine.shared_memory_bytes
    if not on_gpu(context) or context.config.limits.tensor_parallel < 2:
        return
    if size is None:
        yield unknown("/dev/shm", "the size of /dev/shm could not be read")  # noqa: S108
    elif size < SMALLEST_SHARED_MEMORY:
        yield Problem(
            "/dev/shm",  # noqa: S108
            f"{size >> 20:,} MiB are free, and ranks that talk through it want 1 GiB",
            "start the container with --ipc=host or --shm-size=8g",
        )


def orphaned_engine(context: Context) -> Iterator[Problem]:
    """A killed server's helpers live on and keep the memory that the next one needs."""
    processes = context.machine.processes
    if processes is None:
        yield unknown("processes", "the machine's processes could not be read")
        return
    for process in processes:
        if process.orphaned:
            holds = f" and holds {process.gpu_bytes / 2**30:.1f} GiB of GPU memory" if process.gpu_bytes else ""
            yield Problem(
                f"process {process.pid}",
                f"'{process.title}' lives on without its server{holds}",
                f"end it: kill {process.pid}",
            )


def replaced_libraries(context: Context) -> Iterator[Problem]:
    """A server whose packages were upgraded under it mixes two releases at its next import."""
    for process in context.machine.processes or ():
        if process.replaced:
            more = f" and {len(process.replaced) - 1} more" if len(process.replaced) > 1 else ""
            yield Problem(
                f"process {process.pid}",
                f"'{process.title}' runs with a library that is not on disk any more: {process.replaced[0]}{more}",
                "start that server again",
            )


RULES = (
    Rule(
        "driver-too-old",
        "The driver runs CUDA 12",
        Severity.refuse,
        driver_too_old,
        "NVIDIA CUDA Compatibility guide, table of minimum driver versions",
    ),
    Rule(
        "driver-before-cuda",
        "The driver is as new as CUDA 12.8",
        Severity.warn,
        driver_before_cuda,
        "vllm-project/vllm issue 37159; NVIDIA CUDA 12.8 release notes, table of driver versions",
    ),
    Rule(
        "driver-without-volta",
        "The driver supports Volta",
        Severity.warn,
        driver_without_volta,
        "NVIDIA driver R580 release notes, end of support for Maxwell, Pascal and Volta",
    ),
    Rule(
        "driver-library-differs",
        "Driver and libcuda are one version",
        Severity.warn,
        driver_library_differs,
        "1CatAI/1Cat-vLLM issue 43; NVIDIA CUDA driver API, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    ),
    Rule(
        "visible-devices",
        "CUDA_VISIBLE_DEVICES names GPUs that are here",
        Severity.refuse,
        visible_devices,
        "NVIDIA CUDA C++ Programming Guide, section 'CUDA Environment Variables'; vLLM 0.32 platforms/cuda.py",
    ),
    Rule(
        "device-order",
        "Cards are numbered by slot where they differ",
        Severity.warn,
        device_order,
        "vLLM 0.32 platforms/cuda.py: log_warnings",
    ),
    Rule(
        "gpus-differ",
        "The ranks' cards are of one kind",
        Severity.warn,
        gpus_differ,
        "vLLM 0.32 v1/core/kv_cache_utils.py: the smallest number of blocks holds for all",
    ),
    Rule(
        "gpu-memory-taken",
        "The GPUs have the asked share of their memory free",
        Severity.refuse,
        gpu_memory_taken,
        "vLLM 0.32 v1/worker/utils.py: request_memory; 1CatAI/1Cat-vLLM pull request 702",
    ),
    Rule(
        "hardware-differs",
        "The GPUs are those of the profile",
        Severity.warn,
        hardware_differs,
        "docs/config.md, section 'hardware'",
    ),
    Rule(
        "peer-access-missing",
        "The ranks' GPUs reach each other's memory",
        Severity.warn,
        peer_access_missing,
        "1CatAI/1Cat-vLLM issues 57 and 42",
    ),
    Rule(
        "over-nodes",
        "The ranks' GPUs hang on one memory node",
        Severity.info,
        over_nodes,
        "NVIDIA NCCL documentation, page 'Troubleshooting'",
    ),
    Rule(
        "shared-memory-small",
        "Shared memory is large enough for ranks to talk",
        Severity.warn,
        shared_memory_small,
        "vLLM documentation, page 'Using Docker'; NVIDIA NCCL documentation, section 'Shared memory'",
    ),
    Rule(
        "orphaned-engine",
        "No engine process has lost its server",
        Severity.warn,
        orphaned_engine,
        "vllm-project/vllm issue 55510",
    ),
    Rule(
        "replaced-libraries",
        "Running servers have their libraries on disk",
        Severity.warn,
        replaced_libraries,
        "proc(5), /proc/PID/maps: '(deleted)'",
    ),
)
