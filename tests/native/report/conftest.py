import pytest

from toolkit.native.elf.cubin import kernels
from toolkit.native.nvrtc import Compiler
from toolkit.native.toolchain import find


@pytest.fixture(scope="session")
def compile_kernels(root, tmp_path_factory):
    """Compiles CUDA C++ for sm_70 and gives its kernels by name."""
    toolchain = find(root, root / "build")
    compiler = Compiler(toolchain.nvrtc, toolchain.includes)

    def compiled(text):
        source = tmp_path_factory.mktemp("cuda") / "sample.cu"
        source.write_text(text)
        return {kernel.name: kernel for kernel in kernels(compiler.compile(source, "sample.cu").cubin)}

    return compiled
