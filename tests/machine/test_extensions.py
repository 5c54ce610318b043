"""Compiled packages beside torch, in made-up environments of real ELF files, and in this one."""

import sys
from itertools import count
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "native"))
from library_samples import fat_binary, library, stub

from toolkit.machine import extensions as probing
from toolkit.machine.extensions import extensions
from toolkit.machine.facts import Extension, Extensions

OLD, NEW = (
    "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib",
    "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
)


@pytest.fixture
def site(tmp_path):
    """An import folder whose torch defines NEW alone."""
    home = tmp_path / "site"
    (home / "torch-2.10.0.dist-info").mkdir(parents=True)
    made(home, "torch/lib/libc10.so", f"int {NEW} = 1;")
    made(home, "torch/lib/libtorch_cpu.so", "int aoti_torch_shim = 1;")
    return home


def made(home, name, code="int sample = 1;", *, linked=(), targets=()):
    """A library with this code, linked to libraries of these names, with code for (kind, architecture) targets."""
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    work = home.parent / f"work-{path.name}"
    work.mkdir(exist_ok=True)
    if targets:
        (work / "fat.bin").write_bytes(fat_binary(*targets))
        code += f'__asm__(".section .nv_fatbin,\\"a\\"\\n.incbin \\"{work}/fat.bin\\"\\n.text\\n");'
    flags = [flag for soname in linked for flag in stub(work, soname)]
    path.write_bytes(library(work, code=code, flags=flags))
    return path


def wants(*names):
    calls = " + ".join(f"{name}()" for name in names)
    return "".join(f"extern int {name}(void);" for name in names) + f"int use(void) {{ return {calls}; }}"


def test_code_for_gpus_counts_with_or_without_torch(site):
    made(site, "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", linked=["libc10.so"], targets=[(2, 80), (1, 90)])
    made(site, "bitsandbytes/libbitsandbytes_cuda128.so", targets=[(2, 70)])
    made(site, "numpy/core.so")
    made(site, "torchvision/image.so", linked=["libtorch_cpu.so"])
    assert extensions([site]).libraries == (
        Extension("flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", ("sm_80", "compute_90")),
        Extension("bitsandbytes/libbitsandbytes_cuda128.so", ("sm_70",)),
        Extension("torchvision/image.so"),
    )
    assert [extension.package for extension in extensions([site]).libraries] == [
        "flash_attn_2_cuda", "bitsandbytes", "torchvision",
    ]  # fmt: skip


def test_symbols_that_this_torch_does_not_define(site):
    made(site, "xformers/_C.so", wants(OLD, NEW, "helper", "aoti_torch_shim", "memcpy"), linked=["libc10.so"])
    assert extensions([site]).libraries == (Extension("xformers/_C.so", undefined=(OLD,)),)
    made(site, "xformers/other.so", f"int {OLD} = 1;")  # a neighbour may define it
    assert extensions([site]).libraries == (Extension("xformers/_C.so"),)


def test_no_torch_no_word_about_its_symbols(site):
    made(site, "xformers/_C.so", wants(OLD), linked=["libc10.so"])
    for library_of_torch in (site / "torch/lib").iterdir():
        library_of_torch.unlink()
    (site / "torch/lib").rmdir()
    assert extensions([site]).libraries == (Extension("xformers/_C.so", missing=("libc10.so",)),)


def test_libraries_that_are_not_installed(site, monkeypatch, tmp_path):
    linked = ["libc10.so", "libcudart.so.77", "libcublas.so.77", "libanything.so.3"]
    made(site, "vllm_flash_attn/_C.so", linked=linked)
    assert extensions([site]).libraries[0].missing == ("libcudart.so.77", "libcublas.so.77")
    made(site, "nvidia/cuda_runtime/lib/libcudart.so.77")
    assert extensions([site]).libraries[0].missing == ("libcublas.so.77",)
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(b"\0libcublas.so.77\0/usr/lib/libcublas.so.77\0")
    monkeypatch.setattr(probing, "LOADER_CACHE", cache)
    assert extensions([site]).libraries[0].missing == ()


def test_a_library_that_finds_its_own(site, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    path = site / "pkg/_C.so"
    path.parent.mkdir()
    flags = [*stub(work, "libcudart.so.77"), "-Wl,-rpath,$ORIGIN/../pkg.libs"]
    path.write_bytes(library(work, flags=[*stub(work, "libc10.so"), *flags]))
    assert extensions([site]).libraries[0].missing == ("libcudart.so.77",)
    (site / "pkg.libs").mkdir()
    (site / "pkg.libs" / "libcudart.so.77").write_bytes(b"")
    assert extensions([site]).libraries[0].missing == ()


def test_the_folder_that_comes_first_counts(site, tmp_path):
    other = tmp_path / "other"
    (other / "x-1.dist-info").mkdir(parents=True)
    made(other, "awq_ext.so", targets=[(2, 90)])
    made(site, "awq_ext.so", targets=[(2, 70)])
    assert extensions([other, site]).libraries == (Extension("awq_ext.so", ("sm_90",)),)
    assert extensions([site, other]).libraries == (Extension("awq_ext.so", ("sm_70",)),)


def test_what_other_facts_speak_of_and_what_is_no_package_is_left_out(site, tmp_path):
    for name in ("nvidia/nccl/lib/libnccl.so.2", "triton/_C/libtriton.so", "torch/lib/libtorch_cuda.so"):
        made(site, name, targets=[(2, 90)])
    plain = tmp_path / "stdlib"
    plain.mkdir()
    made(plain, "_ctypes.so", targets=[(2, 90)])
    (site / "broken.so").write_bytes(b"\x7fELF\2\1")
    assert extensions([site, plain, tmp_path / "none"]) == Extensions()


def test_time_is_bounded_and_what_is_left_is_named(site):
    made(site, "a.so", targets=[(2, 90)])
    made(site, "b/c.so", targets=[(2, 90)])
    ticks = count(0, probing.SECONDS * 0.6)  # the first library is read before the end, the second is not
    found = extensions([site], clock=lambda: next(ticks))
    assert found == Extensions((Extension("a.so", ("sm_90",)),), ("b/c.so",))


def test_this_environment():
    """vLLM's own libraries are found, and they fit the torch that they are installed with."""
    found = extensions([Path(folder) for folder in sys.path if folder])
    engine = [extension for extension in found.libraries if extension.package == "vllm"]
    assert engine
    if any(extension.library == "vllm/_C.abi3.so" for extension in engine):  # the CPU build
        assert [extension for extension in engine if extension.undefined or extension.missing] == []
    else:  # the CUDA build, which was made for another torch
        assert any("torch_from_blob" in extension.undefined for extension in engine)
