"""What is read from a cubin's ELF fields, for kernels whose facts follow from their text."""

import re
import shutil
import subprocess

import pytest

from toolkit.errors import CheckFailedError
from toolkit.native import container
from toolkit.native.check.wheel import Wheel
from toolkit.native.elf.cubin import kernels
from toolkit.native.sass.decode import decode

SOURCE = """
extern "C" __global__ void plain(float* x) { x[threadIdx.x] = 1.0f; }
extern "C" __global__ void shared(float* x) {
  __shared__ float at[100];
  at[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = at[99 - threadIdx.x];
}
extern "C" __global__ void indexed(float* x, int n) {
  float at[64];
  for (int i = 0; i < 64; ++i) at[i] = x[i * n];
  for (int i = 0; i < 64; ++i) x[i * n] = at[(i * n) & 63];
}
extern "C" __global__ void __launch_bounds__(1024, 2) bounded(float* x, int n) {
  float at[16];
  for (int i = 0; i < 16; ++i) at[i] = x[i];
  for (int i = 0; i < 16; ++i) x[i] = at[15 - i];
}
"""


@pytest.fixture(scope="module")
def found(compile_kernels):
    return compile_kernels(SOURCE)


def test_registers_shared_memory_barriers_and_stack(found):
    assert {name: (item.static_shared, item.barriers, item.stack) for name, item in found.items()} == {
        "plain": (0, 0, 0),
        "shared": (400, 1, 0),
        "indexed": (0, 0, 256),
        "bounded": (0, 0, 0),
    }
    assert found["plain"].registers < found["bounded"].registers <= 32  # 2 x 1024 threads share 64 K registers


def test_local_memory_shows_in_the_code_as_well(found):
    used = {name: {item.operation for item in decode(kernel.code)} for name, kernel in found.items()}
    assert {"LDL", "STL"} <= used["indexed"]
    assert not {"LDL", "STL"} & (used["plain"] | used["shared"] | used["bounded"])


def test_what_is_no_cubin_is_refused():
    with pytest.raises(CheckFailedError, match=r"^the cubin cannot be parsed\n"):
        kernels(b"\x7fELF" + bytes(99))


def test_our_kernels_read_as_nvdisasm_reads_them(built, tmp_path):
    """Runs where an nvdisasm that knows sm_70 is on PATH: CUDA 12 has one, and so has the package triton==3.6.0."""
    program = shutil.which("nvdisasm")
    if program is None:
        pytest.skip("no nvdisasm on PATH (the package triton==3.6.0 has one that knows sm_70)")
    data = Wheel.read(built).images["toolkit/native/volta_native.so"].section(container.SECTION)
    for entry in container.unpack(data):
        if entry.kind is not container.Kind.CUBIN:
            continue
        path = tmp_path / f"{entry.name}.cubin"
        path.write_bytes(entry.data)
        done = subprocess.run([program, "-c", path], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"nvdisasm does not read sm_70: {done.stderr.strip()}")
        for kernel in kernels(entry.data):
            start = done.stdout.index(f".text.{kernel.name} ")
            listing = done.stdout[start:].split("//----")[0]
            assert f'"SHI_REGISTERS={kernel.registers}"' in listing
            assert (f'"SHF_BARRIERS={kernel.barriers}"' in listing) is bool(kernel.barriers)
            names = re.findall(r"^\s+/\*\w{4,}\*/\s+(?:@!?P\w\s+)?([A-Z0-9]+)", listing, re.MULTILINE)
            assert names == [item.operation for item in decode(kernel.code)], kernel.name
