"""Memory of a GPU that no tensor takes: the context, libraries, modules, NCCL, CUDA graphs. Less than a minute.

usage: python3 benchmarks/gpu_memory.py [--json FILE] [--gpus N]

It needs torch and a driver; with build/native/volta_native.so of this checkout it loads our modules, with Triton and a
C compiler theirs. Each stage is a process of its own. Bytes are those by which the device's used memory (NVML) grew
since before the process touched it, less what torch's allocator holds; so nothing else may use the GPU meanwhile. A
stage that cannot run leaves its fault in the record. NCCL runs without NVLink multicast, which a V100 has not.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

STAGE_S = 50
GRAPHS = 16
CONTEXT_LIMIT_STACK = 0
"""CU_LIMIT_STACK_SIZE: bytes of local memory that the driver keeps for every thread that can be resident."""
NODES = (50, 500, 2000)


class Memory:
    """The used bytes of one GPU, by NVML, which needs no context."""

    def __init__(self, uuid: str) -> None:
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self._check(self._nvml.nvmlInit_v2())
        self._device = ctypes.c_void_p()
        self._check(self._nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device)))
        self._before = self.used()

    def used(self) -> int:
        """Bytes of the whole device that are in use."""
        total_free_used = (ctypes.c_ulonglong * 3)()
        self._check(self._nvml.nvmlDeviceGetMemoryInfo(self._device, total_free_used))
        return int(total_free_used[2])

    def grown(self) -> dict[str, int]:
        """Bytes since the start: outside torch's allocator, and held by it."""
        import torch

        torch.cuda.synchronize()
        held = torch.cuda.memory_reserved()
        return {"outside": self.used() - self._before - held, "torch": held}

    def _check(self, status: int) -> None:
        if status:
            raise OSError(f"NVML answers {status}")


Step = tuple[str, dict[str, int]]


def context(memory: Memory) -> Iterator[Step]:
    """A context, with torch's modules loaded as CUDA_MODULE_LOADING says."""
    import torch

    torch.empty(1, device="cuda")
    yield "context", memory.grown()
    torch.zeros(1, device="cuda").add_(1)
    yield "one kernel of torch", memory.grown()


def libraries(memory: Memory) -> Iterator[Step]:
    """What an engine adds to a context: cuBLAS, our modules, Triton's, and local memory."""
    import torch

    yield from context(memory)
    half = torch.ones(2048, 2048, device="cuda", dtype=torch.float16)
    for rows in (1, 16, 2048):
        half[:rows] @ half
    yield "fp16 matmuls, cuBLAS", memory.grown()
    torch.nn.functional.linear(half[:16], half, half[0])
    yield "matmul with bias, cuBLASLt", memory.grown()
    yield from _attempt("one operator of volta_native.so", _ours, memory)
    yield from _attempt("eight kernels of Triton", _triton, memory)
    yield from _attempt("stack of 1 KiB more a thread", _stack, memory)


def graphs(memory: Memory) -> Iterator[Step]:
    """CUDA graphs of `n` small kernels in one pool, captured and replayed as an engine does."""
    import torch

    x = torch.zeros(1024, device="cuda")
    x.add_(1)
    yield "before graphs", memory.grown()
    kept: list[Any] = []
    pool = torch.cuda.graph_pool_handle()
    for nodes in NODES:
        for _ in range(GRAPHS):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                for _ in range(nodes):
                    x.add_(1)
            kept.append(graph)
        yield f"{GRAPHS} graphs of {nodes} kernels, captured", memory.grown()
        for graph in kept[-GRAPHS:]:
            graph.replay()
        yield f"{GRAPHS} graphs of {nodes} kernels, replayed", memory.grown()


def nccl(memory: Memory) -> Iterator[Step]:
    """Communicators over all ranks, each used for a short and a long all-reduce."""
    import torch
    import torch.distributed as dist

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    short, long = (torch.ones(count, device="cuda", dtype=torch.float16) for count in (5120, 2**25))
    short.add_(1)
    yield "before NCCL", memory.grown()
    dist.init_process_group("nccl", init_method=os.environ["RENDEZVOUS"], rank=rank, world_size=ranks)
    for name in ("first", "second", "third"):
        group = dist.new_group(range(ranks), backend="nccl")
        dist.all_reduce(short, group=group)
        yield f"{name} communicator, short all-reduce", memory.grown()
        dist.all_reduce(long, group=group)
        yield f"{name} communicator, long all-reduce", memory.grown()
    gathered = torch.empty(ranks * short.numel(), device="cuda", dtype=torch.float16)
    dist.all_gather_into_tensor(gathered, short)
    yield "all-gather in the default group", memory.grown()
    dist.destroy_process_group()


STAGES: dict[str, Callable[[Memory], Iterator[Step]]] = {
    "context": context,
    "context, modules loaded eagerly": context,
    "libraries": libraries,
    "graphs": graphs,
    "nccl": nccl,
}


def _attempt(name: str, work: Callable[[], str], memory: Memory) -> Iterator[Step]:
    """A step that is left out, with the reason, where this machine lacks what it needs."""
    try:
        note = work()
        yield f"{name} ({note})", memory.grown()
    except Exception as error:  # noqa: BLE001 - the other steps go on
        print(f"left out: {name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)


def _ours() -> str:
    import torch

    from toolkit.native import info, load

    load()
    x, weight = torch.ones(4, 64, device="cuda").half(), torch.ones(64, device="cuda").half()
    torch.ops.volta.rms_norm(torch.empty_like(x), x, weight, 1e-6)
    return f"{len(info().device_code)} device codes"


def _triton() -> str:
    import torch

    kernels = importlib.import_module("gpu_memory_triton")  # beside this file, which is run
    x = torch.zeros(1024, device="cuda")
    for amount in range(8):
        kernels.add[(1,)](x, amount, 1024)
    return str(kernels.VERSION)


def _stack() -> str:
    """Local memory follows SMs x threads x bytes, which tells how a context scales from one GPU to another."""
    import torch

    driver = ctypes.CDLL("libcuda.so.1")
    size = ctypes.c_size_t()
    driver.cuCtxGetLimit(ctypes.byref(size), CONTEXT_LIMIT_STACK)
    before = size.value
    status = driver.cuCtxSetLimit(CONTEXT_LIMIT_STACK, ctypes.c_size_t(before + 1024))
    if status:
        raise OSError(f"cuCtxSetLimit answers {status}")
    torch.zeros(1, device="cuda").add_(1)
    return f"{before} bytes before"


def stage(name: str, uuid: str) -> int:
    """In a process of its own: one JSON line for each step."""
    memory = Memory(uuid)
    import torch

    torch.cuda.set_device(int(os.environ.get("RANK", "0")))
    for step, grown in STAGES[name](memory):
        print(json.dumps({"step": step, **grown}), flush=True)
    return 0


def start(name: str, uuid: str, **environment: str) -> subprocess.Popen[str]:
    """A stage's process."""
    command = [sys.executable, __file__, "--stage", name, "--uuid", uuid]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )


def finish(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Each process's steps, and what it said where it failed or left something out."""
    ends, found = time.monotonic() + STAGE_S, []
    for process in processes:
        try:
            out, errors = process.communicate(timeout=max(1, ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
        steps = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        record: dict[str, Any] = {"steps": steps}
        if process.returncode:
            record["fault"] = f"exit {process.returncode}: {errors[-1000:]}"
        elif left := [line for line in errors.splitlines() if line.startswith("left out")]:
            record["left_out"] = left
        found.append(record)
    return found


def over_gpus(uuids: list[str]) -> dict[str, Any]:
    """The NCCL stage, one process for each GPU, and what NCCL says of its channels."""
    with tempfile.TemporaryDirectory() as folder:
        common = {
            "WORLD_SIZE": str(len(uuids)),
            "RENDEZVOUS": f"file://{folder}/rendezvous",
            "NCCL_NVLS_ENABLE": "0",
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,ENV",
            "NCCL_DEBUG_FILE": f"{folder}/%p.log",
        }
        ranks = finish([start("nccl", uuid, RANK=str(rank), **common) for rank, uuid in enumerate(uuids)])
        said = "".join(log.read_text(errors="replace") for log in sorted(Path(folder).glob("*.log")))
    told = sorted(set(re.findall(r"\d+ coll channels.*|NCCL_\w+ set .*|Connected all .*|NCCL version \S+", said)))
    return {"ranks": ranks, "nccl_says": told}


def machine() -> dict[str, Any]:
    """The GPUs and the versions, asked in a process of its own so that this one touches no GPU."""
    ask = (
        "import json, torch; p = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())];"
        "print(json.dumps({'gpu': p[0].name, 'capability': [p[0].major, p[0].minor], 'sms': p[0].multi_processor_count,"
        "'threads_an_sm': p[0].max_threads_per_multi_processor, 'gpu_bytes': p[0].total_memory,"
        "'torch': torch.__version__, 'cuda': torch.version.cuda, 'nccl': list(torch.cuda.nccl.version()),"
        "'uuids': ['GPU-' + str(each.uuid).removeprefix('GPU-') for each in p]}))"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(f"torch sees no NVIDIA GPU here: {done.stderr.strip().splitlines()[-1]}")
    smi = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(smi, capture_output=True, text=True, check=False).stdout.split()
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts | {"driver": driver[0] if driver else "unknown", "python": platform.python_version()}


def measure(uuids: list[str]) -> dict[str, Any]:
    """All stages, one after the other."""
    found: dict[str, Any] = {}
    for name in STAGES:
        if name == "nccl":
            if len(uuids) > 1:
                found[f"nccl, {len(uuids)} GPUs"] = over_gpus(uuids)
            continue
        loading = "EAGER" if name.endswith("eagerly") else "LAZY"
        (found[name],) = finish([start(name, uuids[0], CUDA_MODULE_LOADING=loading)])
        print(name, flush=True)
        for step in found[name]["steps"]:
            print(f"  {step['step']:48} {step['outside'] / 2**20:9.1f} MiB", flush=True)
    return found


def main() -> int:
    """Measure, print and write; 1 where a stage failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--gpus", type=int, help="how many GPUs the NCCL stage takes; all that torch sees by default")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--uuid", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stage:
        return stage(args.stage, args.uuid)
    started = time.monotonic()
    try:
        facts = machine()
    except LookupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 5
    uuids = facts.pop("uuids")[: args.gpus]
    command = "python benchmarks/gpu_memory.py --json FILE"
    record = {**facts, "gpus": len(uuids), "command": command, "stages": measure(uuids)}
    record["seconds"] = round(time.monotonic() - started)
    text = json.dumps(record, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")
    return 1 if '"fault"' in text else 0


if __name__ == "__main__":
    sys.exit(main())
