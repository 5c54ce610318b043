import pytest

from toolkit.errors import CheckFailedError
from toolkit.native.elf.device import cubin_fault, kernel_names
from toolkit.native.nvrtc import Compiler, dependencies
from toolkit.native.toolchain import find

KERNEL = 'extern "C" __global__ void fill_f32_rows_sm70(float* x) { x[threadIdx.x] = 1.0f; }\n'


@pytest.fixture(scope="module")
def compiler(root):
    toolchain = find(root, root / "build")
    return Compiler(toolchain.nvrtc, toolchain.includes)


def test_a_kernel_becomes_a_cubin_and_ptx(compiler, tmp_path):
    source = tmp_path / "fill.cu"
    source.write_text(KERNEL)
    made = compiler.compile(source, "fill.cu")
    assert cubin_fault(made.cubin, 70) is None
    assert kernel_names(made.cubin) == {"fill_f32_rows_sm70"}
    assert b".target sm_70" in made.ptx
    assert made.ptx.endswith(b"\0")
    assert compiler.version() == "12.8"


def test_an_error_says_file_line_and_the_compilers_words(compiler, tmp_path):
    source = tmp_path / "bad.cu"
    source.write_text(KERNEL + "int x = undeclared_name;\n")
    with pytest.raises(CheckFailedError) as caught:
        compiler.compile(source, "kernels/cuda/bad.cu")
    assert caught.value.what == 'kernels/cuda/bad.cu(2): error: identifier "undeclared_name" is undefined [sm_70]'
    assert "int x = undeclared_name;" in caught.value.why
    assert "deprecated" not in caught.value.why


def test_dependencies_are_followed_through_headers(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.cu").write_text('#include <cuda_fp16.h>\n#include "b.h"\n')
    (tmp_path / "b.h").write_text('#pragma once\n  #  include "deep/c.h"\n#include "missing.h"\n')
    (tmp_path / "deep" / "c.h").write_text('#include "../b.h"\n')
    assert dependencies(tmp_path / "a.cu", ()) == (tmp_path / "b.h", tmp_path / "deep" / "c.h")
