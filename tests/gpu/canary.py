"""A kernel with one fault on purpose, for compute-sanitizer to find: canary.py memcheck, racecheck or synccheck.

A tool that watches our kernels (by their names, which end in _sm70) must find the fault in this one. It is PTX, so that
the driver alone compiles it. The process may end with the error that a fault leads to; what counts is the tool's word.
"""

from __future__ import annotations

import ctypes
import sys

import torch

THREADS = 64
HEAD = ".version 6.0\n.target sm_70\n.address_size 64\n"
ENTRY = """.visible .entry {tool}_canary_sm70(.param .u64 out) {{
  .reg .b64 %address, %own;
  .reg .b32 %thread, %at, %x;
  .reg .pred %low;
  .shared .align 4 .b32 held[64];
  ld.param.u64 %address, [out];
  cvta.to.global.u64 %address, %address;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %own, %thread, 4;
  add.u64 %own, %address, %own;
{body}
  ret;
}}
"""
BODIES = {
    # behind the end of the 256 bytes that the threads own
    "memcheck": "  st.global.u32 [%own + 4096], %thread;",
    # a warp reads what the other one has written, and nothing makes it wait
    "racecheck": """  mov.u32 %at, held;
  mad.lo.u32 %x, %thread, 4, %at;
  st.shared.u32 [%x], %thread;
  sub.u32 %x, 63, %thread;
  mad.lo.u32 %x, %x, 4, %at;
  ld.shared.u32 %x, [%x];
  st.global.u32 [%own], %x;""",
    # a barrier that a part of a warp goes past
    "synccheck": """  setp.lt.u32 %low, %thread, 40;
  @!%low bra past;
  bar.sync 0;
past:
  st.global.u32 [%own], %thread;""",
}


def launch(tool: str) -> None:
    """Compile and launch the kernel on torch's context. Raises RuntimeError with the driver's number of the error."""
    out = torch.zeros(THREADS, dtype=torch.int32, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    module, function, pointer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(out.data_ptr())
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    text = (HEAD + ENTRY.format(tool=tool, body=BODIES[tool])).encode()
    need(driver.cuModuleLoadData(ctypes.byref(module), text), "cuModuleLoadData")
    need(
        driver.cuModuleGetFunction(ctypes.byref(function), module, f"{tool}_canary_sm70".encode()),
        "cuModuleGetFunction",
    )
    need(driver.cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, None, arguments, None), "cuLaunchKernel")
    torch.cuda.synchronize()


def need(code: int, call: str) -> None:
    """Raise RuntimeError where the driver has not done it."""
    if code:
        raise RuntimeError(f"{call}: CUDA error {code}")


if __name__ == "__main__":
    launch(sys.argv[1])
