# ruff: noqa: E501  (lines of a log are as long as they are)
"""Each known cause is recognised in a realistic log, and a sound log shows none."""

import re
import signal

import pytest

from toolkit.engine.known_causes import BY_SIGNAL, TABLE, diagnose

CORE = "(EngineCore pid=2829) ERROR 11-29 13:57:14 [core.py:1510] "
WORKER = "(Worker_TP0 pid=2861) ERROR 11-29 13:57:14 [multiproc_executor.py:1063] "

SOUND = """\
(APIServer pid=2752) WARNING 11-29 13:56:33 [system_utils.py:255] Found ulimit of 20000 and failed to automatically increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n
(Worker pid=8819) WARNING 11-29 14:11:21 [utils.py:597] Failed to create oneDNN linear, fallback to torch linear. Exception: could not create a primitive descriptor for the matmul primitive.
(APIServer pid=2752) INFO 11-29 13:56:48 [cache.py:361] Using fp8_e4m3 data type to store kv cache. It reduces the GPU memory footprint
(EngineCore pid=8697) INFO 11-29 14:11:21 [kv_cache_utils.py:2327] CPU KV cache size: 46,592 tokens
INFO:     Application startup complete.
"""

LOGS = {
    "platform-refused": "RuntimeError: engine=v100 cannot start: the native library /src/build/native/volta_native.so is not this toolkit's (/src/build/native/volta_native.so: undefined symbol: aoti_torch_x): invoke build",
    "two-platforms": "RuntimeError: Only one platform plugin can be activated, but got: ['volta', 'other']",
    "port-in-use": "OSError: [Errno 98] Address already in use",
    "shared-memory-full": CORE
    + "RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: 160 MiB required, 64 MiB free. Increase /dev/shm (e.g. --shm-size or --ipc=host).",
    "no-space": "OSError: [Errno 28] No space left on device: '/root/.cache/vllm/torch_compile_cache/ab12'",
    "folder-not-writable": WORKER
    + "PermissionError: [Errno 13] Permission denied: '/home/me/.cache/volta-toolkit/engine/0123456789ab/triton/tmp.pid_7'",
    "gpu-memory-held": CORE
    + "ValueError: Free memory on device cuda:0 (3.21/31.73 GiB) on startup is less than desired GPU memory utilization (0.9, 28.56 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    "kv-cache-too-small": CORE
    + "ValueError: To serve at least one request with the model's max seq len (131072), (8.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.10 GiB). Based on the available memory, the estimated maximum model length is 50000.",
    "gpu-out-of-memory": WORKER
    + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 15.77 GiB of which 101.62 MiB is free.",
    "host-out-of-memory": WORKER
    + "RuntimeError: [enforce fail at alloc_cpu.cpp:125] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)",
    "no-kernel-image": WORKER
    + "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    "fp8e4nv-on-volta": WORKER
    + "triton.compiler.errors.CompilationError: at 78:27: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')",
    "bfloat16-on-volta": "(APIServer pid=1) ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla V100-SXM2-32GB GPU has compute capability 7.0. You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.",
    "fp8-kv-on-cpu": CORE
    + "RuntimeError: Worker failed with error 'FP8 KV cache on CPU requires x86 with AVX-512 or AMX.', please check the stack trace above for the root cause",
    "triton-shared-memory": WORKER
    + "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 98304. Reducing block sizes or `num_stages` may help.",
    "wrong-vllm-module": "ModuleNotFoundError: No module named 'vllm._C'",
    "vllm-not-installed": "/usr/bin/python3: Error while finding module specification for 'vllm.entrypoints.launchers.api_server.entry' (ModuleNotFoundError: No module named 'vllm')",
    "plugin-not-installed": WORKER + "ModuleNotFoundError: No module named 'toolkit'",
    "missing-module": "ModuleNotFoundError: No module named 'flash_attn_v100_cuda'",
    "undefined-symbol": "ImportError: /venv/lib/python3.12/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
    "missing-library": "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    "cuda-compatibility": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination",
    "driver-too-old": "RuntimeError: The NVIDIA driver on your system is too old (found version 12040).",
    "no-gpu": "RuntimeError: No CUDA GPUs are available",
    "gpu-fault": WORKER + "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "heads-not-divisible": "ValueError: Total number of attention heads (52) must be divisible by tensor parallel size (3).",
    "unsupported-architecture": "ValueError: Model architectures ['MiniMaxM9ForCausalLM'] are not supported for now. Supported architectures: dict_keys([...])",
    "damaged-checkpoint": WORKER
    + "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
    "context-too-long": "ValueError: User-specified max_model_len (131072) is greater than the derived max_model_len (max_position_embeddings=8192.0 or model_max_length=None in model's config.json).",
    "too-many-open-files": "OSError: [Errno 24] Too many open files",
    "unknown-argument": "entry.py: error: unrecognized arguments: --kv-cache-dtipe fp8_e4m3",
    "worker-killed": CORE
    + "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}",
}


@pytest.mark.parametrize("name", LOGS)
def test_each_cause_is_recognised_among_sound_lines(name):
    found = diagnose(f"{SOUND}{LOGS[name]}\n{SOUND}", 1)
    assert (found.name, found.evidence) == (name, LOGS[name].strip())
    assert found.cause
    assert found.fix


def test_every_entry_has_a_log():
    assert [known.name for known in TABLE] == list(LOGS)


def test_a_sound_log_shows_no_cause():
    assert diagnose(SOUND, 1) is None


@pytest.mark.parametrize("signum", BY_SIGNAL)
def test_a_signal_alone_is_a_cause(signum):
    assert diagnose(SOUND, -signum).evidence == f"signal {signum}"


def test_being_killed_is_explained_by_the_out_of_memory_killer():
    found = diagnose("", -signal.SIGKILL)
    assert found.cause == "killed by signal 9; nearly always that is the kernel's out-of-memory killer"


@pytest.mark.parametrize(
    "line",
    [
        "PermissionError: [Errno 13] error while attempting to bind on address ('127.0.0.1', 80): permission denied",
        "PermissionError: [Errno 13] Permission denied: '/models/mine/model.safetensors'",
    ],
)
def test_a_file_that_is_only_read_or_a_port_is_not_taken_for_a_cache(line):
    assert diagnose(line, 1) is None


def test_a_read_only_disk_is_known_by_its_number():
    line = "OSError: [Errno 30] Read-only file system: '/home/me/.cache/volta-toolkit'"
    assert diagnose(line, 1).name == "folder-not-writable"


def test_the_log_explains_more_than_the_signal():
    assert diagnose(LOGS["no-kernel-image"], -signal.SIGABRT).name == "no-kernel-image"


def test_fixes_name_options_that_exist():
    from toolkit.config.schema.verbs import ServeConfig
    from toolkit.config.strict import known_keys

    groups = "limits|engine|server|checkpoint|kv|switches"
    named = {key for known in TABLE for key in re.findall(rf"\b(?:{groups})\.[a-z_]+", known.fix)}
    assert named
    assert named <= set(known_keys(ServeConfig))
