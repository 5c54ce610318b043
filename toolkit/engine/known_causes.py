"""Known causes of an engine that ended: a line of its log, what it means, and what to change.

The table holds what users of V100 servers met; the first entry that fits wins, so the specific ones come first.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownCause:
    """One way in which an engine fails."""

    name: str
    pattern: re.Pattern[str]
    """What its log says, within one line."""
    cause: str
    fix: str


@dataclass(frozen=True)
class Diagnosis:
    """A known cause, and the line that shows it."""

    name: str
    cause: str
    fix: str
    evidence: str


def _known(name: str, pattern: str, cause: str, fix: str) -> KnownCause:
    return KnownCause(name, re.compile(pattern), cause, fix)


TABLE: tuple[KnownCause, ...] = (
    _known(
        "platform-refused",
        r"engine=v100 cannot start: ",
        "engine=v100 cannot start with what it found on this machine",
        "do what that line ends with; toolkit-doctor looks at the rest of the machine",
    ),
    _known(
        "two-platforms",
        r"Only one platform plugin can be activated, but got",
        "two packages bring vLLM a platform, and it takes one",
        "uninstall the other; toolkit-doctor names it",
    ),
    _known(
        "port-in-use",
        r"\[Errno 98\]|[Aa]ddress already in use",
        "another process listens on the port",
        "set server.port to a free one, or stop the other server (toolkit-status shows ours)",
    ),
    _known(
        "shared-memory-full",
        r"Insufficient space in /dev/shm|(No space|[Bb]us error).*(/dev/shm|/psm_|shared memory)",
        "the shared memory folder /dev/shm is full or too small",
        "give the container more shared memory (docker run --shm-size=8g), or remove left-over /dev/shm/psm_* files",
    ),
    _known(
        "no-space",
        r"No space left on device|Disk quota exceeded",
        "a file system is full",
        "free some space; df -h shows where",
    ),
    _known(
        "folder-not-writable",
        r"\[Errno 30\] |\[Errno 13\] Permission denied: '.*cache",
        "a folder that the engine writes to cannot be written; compiled kernels are kept in the user's cache folder",
        "make it writable, or start with XDG_CACHE_HOME set to a folder that is",
    ),
    _known(
        "gpu-memory-held",
        r"Free memory on device .* is less than (desired GPU memory utilization|the engine's budget)",
        "other processes hold the GPU's memory, perhaps the workers of a killed server (VLLM::Worker in nvidia-smi)",
        "stop them (toolkit-stop, or nvidia-smi for their PIDs), or lower limits.gpu_memory_utilization",
    ),
    _known(
        "kv-cache-too-small",
        r"No available memory for the cache blocks|larger than the available KV cache memory",
        "the weights leave too little memory for the KV cache of one request",
        "lower limits.max_model_len, take an fp8 KV cache (kv=fp8_e4m3), or raise limits.tensor_parallel",
    ),
    _known(
        "gpu-out-of-memory",
        r"CUDA out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|CUDA error: out of memory",
        "the GPU's memory does not suffice",
        "lower limits.max_num_batched_tokens, limits.max_num_seqs or limits.gpu_memory_utilization",
    ),
    _known(
        "host-out-of-memory",
        r"DefaultCPUAllocator: (can't|not enough)|Cannot allocate memory|\bMemoryError\b|std::bad_alloc",
        "the machine's memory does not suffice",
        "lower limits.kv_cache_memory_bytes or limits.max_model_len, or stop other programs",
    ),
    _known(
        "no-kernel-image",
        r"no kernel image is available for execution",
        "a library holds no code for this GPU's architecture (sm_70 was dropped from upstream's newer builds)",
        "use engine=v100 with our native wheel and torch 2.10; toolkit-doctor says which library lacks sm_70",
    ),
    _known(
        "fp8e4nv-on-volta",
        r"fp8e4nv not supported",
        "a Triton kernel used FP8 E4M3, which Triton does not compile for a V100",
        "use engine=v100, whose own attention reads E4M3, or kv=float16",
    ),
    _known(
        "bfloat16-on-volta",
        r"Bfloat16 is only supported on GPUs with compute capability",
        "a V100 has no bfloat16",
        "engine.dtype=float16",
    ),
    _known(
        "fp8-kv-on-cpu",
        r"FP8 KV cache on CPU requires x86 with AVX-512",
        "vLLM's own CPU attention needs AVX-512 for an FP8 KV cache, and our plugin, which does not, was not active",
        "install volta-toolkit into the engine's environment (engine.python), or kv=float16",
    ),
    _known(
        "triton-shared-memory",
        r"OutOfResources: out of resource: shared memory",
        "a Triton kernel wants more than the 96 KiB of shared memory that a V100's block has",
        "use engine=v100, whose routes fit, or report the kernel that the log names",
    ),
    _known(
        "wrong-vllm-module",
        r"No module named '?vllm\._C",
        "a vllm folder without its native library was imported, such as a source checkout on the import path",
        "remove PYTHONPATH and engine.environment.PYTHONPATH, and reinstall the engine's environment",
    ),
    _known(
        "vllm-not-installed",
        r"No module named '?vllm\b|ModuleNotFoundError: .*'vllm'",
        "the engine's interpreter has no vLLM",
        "point engine.python at an environment with it, or install requirements/cpu.txt",
    ),
    _known(
        "plugin-not-installed",
        r"No module named '?toolkit\b",
        "volta-toolkit is not installed in the engine's environment, whose workers are its classes",
        "install it there too: ENGINE_PYTHON -m pip install --no-deps volta-toolkit, or let engine.python empty",
    ),
    _known(
        "missing-module",
        r"ModuleNotFoundError: No module named '?[\w.]+|No module named '?\w*(flash_attn|_cuda)\w*",
        "a Python package is missing in the engine's environment",
        "reinstall that environment from the pinned requirements",
    ),
    _known(
        "undefined-symbol",
        r"undefined symbol: \S+",
        "a native library was built against another torch than the one that is installed",
        "reinstall both from the pinned requirements; toolkit-doctor compares their versions",
    ),
    _known(
        "missing-library",
        r"\S+\.so[.\d]*: cannot open shared object file",
        "a shared library is missing",
        "install the package that brings it into the engine's environment; LD_LIBRARY_PATH is not passed on",
    ),
    _known(
        "cuda-compatibility",
        r"Error 803|unsupported display driver / cuda driver combination",
        "CUDA's compatibility libraries (cuda-compat) were loaded on a driver that does not want them",
        "remove cuda-compat from the image or from LD_LIBRARY_PATH",
    ),
    _known(
        "driver-too-old",
        r"CUDA driver version is insufficient|NVIDIA driver on your system is too old",
        "the NVIDIA driver is older than this CUDA needs",
        "install a driver of branch 570 or 580 (the last with V100 support is 580)",
    ),
    _known(
        "no-gpu",
        r"No CUDA GPUs are available|no CUDA-capable device|Failed to infer device type|NVML Shared Library Not Found",
        "the engine sees no GPU",
        "check nvidia-smi, CUDA_VISIBLE_DEVICES, and in a container --gpus all; or engine=cpu",
    ),
    _known(
        "gpu-fault",
        r"CUDA error: (unspecified launch failure|an illegal memory access|uncorrectable ECC)|\bXid\b",
        "a GPU faulted",
        "dmesg shows the Xid; after an ECC error or a GPU that fell off the bus, reset it (nvidia-smi -r) or reboot",
    ),
    _known(
        "heads-not-divisible",
        r"attention heads .*must be divisible by tensor parallel size",
        "the attention heads cannot be shared out evenly over that many GPUs",
        "choose a limits.tensor_parallel that divides them, such as 1, 2, 4 or 8",
    ),
    _known(
        "unsupported-architecture",
        r"Model architectures .* are not supported|does not recognize this architecture|not supported in-tree anymore",
        "this vLLM does not know the model's architecture",
        "check architectures in config.json, and engine.version",
    ),
    _known(
        "damaged-checkpoint",
        r"SafetensorError|HeaderTooLarge|MetadataIncompleteBuffer|InvalidHeader",
        "a weight file is damaged or incomplete",
        "verify the checkpoint (toolkit-verify) and fetch it again",
    ),
    _known(
        "context-too-long",
        r"max_model_len \(\d+\) is greater than the derived max_model_len",
        "the context is longer than the model was made for",
        "lower limits.max_model_len",
    ),
    _known(
        "too-many-open-files",
        r"\[Errno 24\]|Too many open files$",
        "the limit of open files is too low",
        "ulimit -n 65535 before starting (LimitNOFILE= in a systemd unit)",
    ),
    _known(
        "unknown-argument",
        r"error: unrecognized arguments|error: argument --[\w-]+:|error: ambiguous option",
        "this vLLM does not take that argument",
        "check engine.extra_arguments, and that engine.version is the one that is installed",
    ),
    _known(
        "worker-killed",
        r"Failed core proc\(s\): \{.*: -9\}|Worker proc \S+ died unexpectedly \(exit code: -9\)",
        "a worker was killed by signal 9; nearly always that is the kernel's out-of-memory killer",
        "dmesg says so; lower limits.kv_cache_memory_bytes or limits.max_model_len, or give the machine more memory",
    ),
)

ILLEGAL_INSTRUCTION = "the processor lacks an instruction that a library was built for"
BY_SIGNAL: dict[int, tuple[str, str, str]] = {
    signal.SIGKILL: (
        "killed",
        "killed by signal 9; nearly always that is the kernel's out-of-memory killer",
        "dmesg says so; lower limits.kv_cache_memory_bytes or limits.max_model_len, or give the machine more memory",
    ),
    signal.SIGILL: ("illegal-instruction", ILLEGAL_INSTRUCTION, "grep flags /proc/cpuinfo; the CPU engine needs AVX2"),
    signal.SIGSEGV: (
        "segmentation-fault",
        "a native library crashed",
        "toolkit-doctor compares the versions of torch, driver and our library; try switches=all_off",
    ),
    signal.SIGBUS: (
        "bus-error",
        "memory that was mapped could not be had: /dev/shm is full, or a mapped file was truncated",
        "df -h /dev/shm; in a container give it more (docker run --shm-size=8g)",
    ),
}


HARMLESS = re.compile(r"\b(DEBUG|INFO|WARNING) \d\d-\d\d \d\d:\d\d:\d\d")
"""vLLM's records below an error: its warnings name faults that might come, such as too many open files."""


def diagnose(log: str, exit_code: int, table: Sequence[KnownCause] = TABLE) -> Diagnosis | None:
    """Why the engine ended, from its log and exit code (negative: the signal); None where it is not a known case."""
    lines = [line for line in log.splitlines() if not HARMLESS.search(line)]
    for known in table:
        for line in lines:
            if known.pattern.search(line):
                return Diagnosis(known.name, known.cause, known.fix, line.strip())
    if -exit_code in BY_SIGNAL:
        name, cause, fix = BY_SIGNAL[-exit_code]
        return Diagnosis(name, cause, fix, f"signal {-exit_code}")
    return None
