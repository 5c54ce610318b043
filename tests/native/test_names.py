import pytest

from toolkit.native import container
from toolkit.native.check.wheel import Wheel
from toolkit.native.elf.device import kernel_names
from toolkit.native.names import KernelName, parse


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("rms_norm_f16_f16_block8_sm70", KernelName("rms_norm", ("f16", "f16"), "block8", 70)),
        ("gemm_f16_nvfp4_f16_qpn_sm70", KernelName("gemm", ("f16", "nvfp4", "f16"), "qpn", 70)),
    ],
)
def test_a_name_is_read_and_written_back(name, parts):
    assert parse(name) == parts
    assert str(parts) == name


@pytest.mark.parametrize(
    "name", ["rms_norm", "rms_norm_f16_sm70", "f16_f16_rows_sm70", "norm_f16_rows_sm", "norm_f9_rows_sm70"]
)
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=f"^not a kernel name: {name}$"):
        parse(name)


def test_every_kernel_in_the_wheel_follows_the_grammar(built):
    data = Wheel.read(built).images["toolkit/native/volta_native.so"].section(container.SECTION)
    cubins = [entry.data for entry in container.unpack(data) if entry.kind is container.Kind.CUBIN]
    names = [name for cubin in cubins for name in kernel_names(cubin)]
    assert len(names) > 40
    assert all(str(parse(name)) == name for name in names)
