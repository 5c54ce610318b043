"""What is read of a machine's GPUs, against nvidia-smi and torch."""

import os
import subprocess
import sys
from itertools import combinations

import pytest

from toolkit.machine.nvml import read_board
from toolkit.machine.probe import probe
from toolkit.machine.visible_devices import chosen

torch = pytest.importorskip("torch")
FIELDS = "index,name,uuid,memory.total,compute_cap,driver_version"


def nvidia_smi():
    command = ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [[cell.strip() for cell in line.split(",")] for line in lines]


def test_every_gpu_is_nvidia_smis():
    rows = nvidia_smi()
    gpus = read_board().gpus
    assert [[str(gpu.index), gpu.name, gpu.uuid] for gpu in gpus] == [row[:3] for row in rows]
    assert [".".join(map(str, gpu.compute_capability)) for gpu in gpus] == [row[4] for row in rows]
    assert all(abs((gpu.memory_bytes >> 20) - int(row[3])) <= 1 for gpu, row in zip(gpus, rows, strict=True))
    assert all(0 < gpu.free_bytes <= gpu.memory_bytes for gpu in gpus)


def test_the_driver_is_nvidia_smis():
    facts = probe()
    assert "gpus" not in facts.unread
    assert facts.driver in (nvidia_smi()[0][5], None)  # a container may hide the kernel's module
    assert facts.driver_library == nvidia_smi()[0][5]


def test_peers_are_torchs(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    count = torch.cuda.device_count()
    links = {(link.first, link.second): link.peer_access for link in read_board().links}
    assert len(links) == len(list(combinations(range(len(read_board().gpus)), 2)))
    for first, second in combinations(range(count), 2):
        assert links[first, second] == torch.cuda.can_device_access_peer(first, second)


def test_memory_that_this_process_takes_is_missed():
    before = read_board().gpus[0].free_bytes
    held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0")
    torch.cuda.synchronize()
    assert before - read_board().gpus[0].free_bytes >= held.numel()


SEEN = """
import ctypes, sys
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
code = cuda.cuInit(0)
if code == 0:
    cuda.cuDeviceGetCount(ctypes.byref(count))
print(count.value)
"""
LISTS = ("", "0", "0,0", "0,,0", "0,", " 0 ", "0,9", "9,0", "-1", "0,-1", "4294967296", "\u0660", "x", "0,x", "0,0,9")


@pytest.mark.parametrize("text", LISTS)
def test_the_variable_is_read_as_the_driver_reads_it(text):
    """How many GPUs a fresh process sees."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": text}
    seen = subprocess.run([sys.executable, "-c", SEEN], env=environment, capture_output=True, text=True, check=True)
    assert len(chosen(text, [gpu.uuid for gpu in read_board().gpus])) == int(seen.stdout)
