"""What is said of a native library."""

from toolkit.display.library_text import about
from toolkit.native.info import DeviceCode, Info, Operator


def test_targets_revision_commit_and_the_width_of_each_sum():
    operators = (
        Operator("rms_norm", "fp32"),
        Operator("rotary", "none"),
        Operator("topk", "fp64"),
        Operator("z", "fp32"),
    )
    code = (DeviceCode("norm", "cubin", 70, 1, ""), DeviceCode("norm", "ptx", 70, 1, ""))
    info = Info("/x/volta.so", operators, code, 7, "0123456789abcdef", dirty=True, kernels_sha256="")
    assert list(about(info)) == [
        "/x/volta.so: compute_70, sm_70, ABI revision 7, commit 0123456789ab with changes",
        "4 operators by the width that they accumulate in:",
        "  fp32  rms_norm, z",
        "  fp64  topk",
        "  none  rotary",
    ]
