"""Facts about a machine, as data; probing is elsewhere, so a recorded machine can stand in for this one.

A fact of None was not read: nobody asked for it, or it could not be read and `MachineFacts.unread` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

COMPILED, TEMPORARY = "compiled code", "temporary files"
"""Uses of folders that the engine writes to."""
NO_LIMIT = -1
"""A resource limit that is not set."""


@dataclass(frozen=True)
class Gpu:
    """One visible GPU."""

    index: int
    name: str
    uuid: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    """All of it, as NVML counts it; CUDA shows the engine what the driver has not reserved."""
    free_bytes: int
    numa_node: int | None = None
    """The memory node that it hangs on; None where the kernel does not say."""
    reserved_bytes: int | None = None
    """Of memory_bytes, what the driver keeps for itself; None where it does not say."""


@dataclass(frozen=True)
class Link:
    """How two GPUs reach each other, by their indices."""

    first: int
    second: int
    path: str
    """The shortest path: `nvlink`, `board`, `switch`, `switches`, `host-bridge`, `node` or `system`."""
    peer_access: bool
    """Each may read and write the other's memory."""


@dataclass(frozen=True)
class EngineProcess:
    """One of vLLM's helper processes, or any other process that holds GPU memory."""

    pid: int
    title: str
    orphaned: bool
    """It calls itself one of vLLM's helpers, and the server that started it is gone."""
    gpu_bytes: int = 0
    replaced: tuple[str, ...] = ()
    """Libraries that it has loaded and that were replaced or removed on disk since."""


@dataclass(frozen=True)
class Copy:
    """One installed copy of a distribution."""

    name: str
    version: str
    folder: str
    """The folder of the import path that it lies in."""


@dataclass(frozen=True)
class DeviceCode:
    """A library that carries code for GPUs."""

    library: str
    """Its path below the import path's folder."""
    targets: tuple[str, ...]
    """`sm_70`, `compute_90`, ..., oldest first."""


@dataclass(frozen=True)
class Software:
    """What is installed for the interpreter that serves."""

    python: str
    folders: tuple[str, ...]
    """Its import path, in the order of the search."""
    distributions: tuple[Copy, ...]
    """Of vLLM, torch and all that torch brings, every copy; the first of a name is the one that is imported."""
    device_code: tuple[DeviceCode, ...]
    user_site: str | None = None
    """The folder of the user's own packages, where the interpreter looks into it."""
    source_trees: tuple[str, ...] = ()
    """Folders of the import path from which sources of vLLM or torch would be imported, not an installed copy."""
    ptxas: Mapping[str, bool] = field(default_factory=dict)
    """Whether each of Triton's assemblers knows sm_70."""
    platform_plugins: tuple[str, ...] | None = None
    """Distributions that bring vLLM a platform of their own."""


@dataclass(frozen=True)
class Interpreter:
    """The interpreter that serves, as it describes itself."""

    executable: str
    python: str
    """Its version."""
    standard: tuple[str, ...]
    """Folders of the standard library."""
    packages: tuple[str, ...]
    """Folders that packages are installed in."""
    added: tuple[str, ...] = ()
    """Folders that the plan puts before them (engine.environment.PYTHONPATH)."""
    toolkit: str | None = None
    """The folder that it imports the toolkit from: one of `packages`, or a checkout; None where it has none."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what decides what is computed, by distribution."""


@dataclass(frozen=True)
class Extension:
    """A compiled library of an installed package that carries code for GPUs or links to torch."""

    library: str
    """Its path below the import path's folder."""
    targets: tuple[str, ...] = ()
    """The GPUs that it has code for; empty where it has none."""
    undefined: tuple[str, ...] = ()
    """Symbols of torch's that it wants and that neither the installed torch nor a library beside it defines: a few."""
    missing: tuple[str, ...] = ()
    """Libraries of torch or CUDA that it links to and that are not installed."""

    @property
    def package(self) -> str:
        """The folder or module that is imported."""
        return self.library.partition("/")[0].partition(".")[0]


@dataclass(frozen=True)
class Extensions:
    """The compiled libraries beside torch's own, NVIDIA's and Triton's."""

    libraries: tuple[Extension, ...] = ()
    unread: tuple[str, ...] = ()
    """Libraries for which there was no time."""


@dataclass(frozen=True)
class Member:
    """A file of an installed package that is not as it was installed."""

    package: str
    version: str
    path: str
    """Below the folder that the package is installed in."""
    recorded_bytes: int | None
    """None where the record does not say."""
    found_bytes: int | None
    """None where the file is gone."""


@dataclass(frozen=True)
class Members:
    """The files of packages that serving stands on, against the installer's records."""

    compared: int = 0
    faults: tuple[Member, ...] = ()
    """At most twenty of each package."""
    without_record: tuple[str, ...] = ()
    """Packages whose installer kept none."""
    unread: tuple[str, ...] = ()
    """Packages for which there was no time."""


@dataclass(frozen=True)
class NativeLibrary:
    """Our own native library, which engine=v100 loads."""

    path: str | None
    """None where there is none that can be used; `fault` says why."""
    current: bool = True
    """It was built from the sources that lie beside it, or none do."""
    fault: str = ""


@dataclass(frozen=True)
class Docker:
    """The container engine."""

    version: str
    nvidia_runtime: bool


@dataclass(frozen=True)
class MachineFacts:
    """The machine that a plan is checked against."""

    architecture: str
    """`x86_64`, ..."""
    cpu_count: int
    """Cores that this process may use."""
    cpu_flags: frozenset[str]
    """Instruction sets by the kernel's names, such as avx2 or avx512f."""
    memory_bytes: int
    available_bytes: int
    python: tuple[int, int, int]
    executable: str
    """The interpreter that runs the toolkit."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Distribution name to version, of those that matter to serving."""
    gpus: tuple[Gpu, ...] = ()
    """Those that CUDA_VISIBLE_DEVICES lets through."""
    hidden_gpus: int = 0
    """GPUs that CUDA_VISIBLE_DEVICES hides."""
    driver: str | None = None
    """The NVIDIA driver's version; None without one."""
    busy_ports: frozenset[int] = frozenset()
    """Of the ports that were asked about, those that something listens on."""
    unusable_hosts: Mapping[str, str] = field(default_factory=dict)
    """Of the hosts that were asked about, those on which this machine cannot listen at all, each with the reason."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The calling shell's VLLM_* variables, which name switches of the public fork."""
    visible_devices: str | None = None
    """The shell's CUDA_VISIBLE_DEVICES; None where it is not set."""
    device_order: str | None = None
    """The shell's CUDA_DEVICE_ORDER; None where it is not set."""
    links: tuple[Link, ...] | None = None
    """One for each pair of visible GPUs."""
    driver_library: str | None = None
    """The version of the libcuda that programs load; None where none was found or none was looked for."""
    lockable_bytes: int | None = None
    """Memory that a process may lock (`ulimit -l`); NO_LIMIT for any amount."""
    open_files: int | None = None
    """Files that a process may hold open (`ulimit -n`); NO_LIMIT for any number."""
    shared_memory_bytes: int | None = None
    """Free bytes of /dev/shm, through which ranks and processes talk."""
    disks: Mapping[str, int] | None = None
    """Free bytes by folder: those that serving writes to or fetches into."""
    fetches_into: Mapping[str, str] | None = None
    """The folder that a checkpoint is brought into, by the kind of its source; `disks` has it, or the folder
    above it that lies on the same disk."""
    unwritable: Mapping[str, str] | None = None
    """Of the folders that the engine writes to, those in which it cannot, by use, each with the reason."""
    numa_nodes: int | None = None
    """Memory nodes that a process may use."""
    processes: tuple[EngineProcess, ...] | None = None
    docker: Docker | None = None
    """None also where there is none."""
    software: Software | None = None
    interpreter: Interpreter | None = None
    extensions: Extensions | None = None
    members: Members | None = None
    native: NativeLibrary | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why a fact could not be read, by the field's name."""
