"""One altered wheel for each rule: the rule finds it, and nothing else does."""

import json
import re

import pytest
from library_samples import LIBRARY, altered, changed, entries_of, foreign_wheel, library, stub

from toolkit.errors import CheckFailedError
from toolkit.native import container
from toolkit.native.check import check_wheel
from toolkit.native.check.text import text
from toolkit.native.check.wheel import Wheel


def members_of(wheel):
    return Wheel.read(wheel).members


def faults(path):
    return [(finding.rule, finding.message) for finding in check_wheel(path).findings]


@pytest.fixture
def with_library(built, tmp_path):
    """Checks the wheel with its library replaced by a small one that has one fault."""

    def check(*, code="int volta_sample = 1;", flags=(), change=lambda entries: entries):
        data = library(tmp_path, change(entries_of(built)), code, flags)
        folder = tmp_path / "altered"
        folder.mkdir()
        return faults(altered(built, folder, {LIBRARY: data}))

    return check


def test_the_wheel_itself_passes_and_computes_in_a_new_process(built):
    report = check_wheel(built)
    assert report.findings == ()
    assert report.manifest["runs_on_v100"] is True
    assert report.manifest["used"]["paths"] == [LIBRARY, "toolkit/__init__.py"]
    assert report.manifest["used"]["architectures"] == ["compute_70", "sm_70"]
    targets = [code["target"] for code in report.manifest["libraries"][LIBRARY]["device_code"]]
    assert targets == ["sm_70", "compute_70"]
    assert json.loads(json.dumps(report.manifest)) == report.manifest


def test_rpath(with_library):
    flags = ["-Wl,--disable-new-dtags", "-Wl,-rpath,/opt/cuda/lib64"]
    assert with_library(flags=flags) == [("elf-rpath", "it has RPATH /opt/cuda/lib64")]


def test_runpath_even_if_it_stays_inside(with_library):
    flags = ["-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN"]
    assert with_library(flags=flags) == [("elf-runpath", "it has RUNPATH $ORIGIN")]


def test_foreign_library(with_library, tmp_path):
    found = with_library(flags=stub(tmp_path, "libopenblas.so.0"))
    assert found == [("elf-needed", "it needs libopenblas.so.0, which no allowed package provides")]


def test_cuda_13_runtime(with_library, tmp_path):
    found = with_library(flags=stub(tmp_path, "libcudart.so.13"))
    assert found == [("elf-needed", "it needs libcudart.so.13: CUDA 13 has no SM70")]


def test_glibc_too_new(with_library):
    code = "extern void *dlsym(void *, const char *); void *volta_sample(void) { return dlsym(0, 0); }"
    found = with_library(code=code)
    if not found:
        pytest.skip("this machine's own glibc is older than 2.34")
    assert found == [("elf-versions", "it needs GLIBC_2.34 of libc.so.6; the wheel's tag promises GLIBC_2.28 at most")]


def test_private_path(with_library):
    found = with_library(code='const char *volta_sample = "/home/alice/work/kernel.cu";')
    assert found == [("private-path", "it holds a path of the build machine: /home/alice/work/kernel.cu")]


@pytest.mark.parametrize(
    ("symbol", "message"),
    [
        ("_ZN3c106detail14torchCheckFailEPKcS2_jS2_", "which is outside torch's stable ABI"),
        ("_ZN2at5emptyEv", "which is outside torch's stable ABI"),
        ("PyObject_Call", "which is outside torch's stable ABI"),
        ("torch_from_blob", "which torch 2.10 does not have"),
    ],
)
def test_symbol_outside_the_stable_abi(with_library, symbol, message):
    code = f'extern void f(void) __asm__("{symbol}"); void volta_sample(void) {{ f(); }}'
    assert with_library(code=code) == [("stable-abi", f"it uses {symbol}, {message}")]


def test_no_sm70_for_one_file(with_library):
    found = with_library(change=lambda entries: changed(entries, "merge.cubin", arch=75))
    assert found == [("device-cubin", "the sm_70 cubin of merge is unusable: it is missing")]


def test_a_cubin_that_calls_itself_sm70_but_is_not(with_library):
    def other_gpu(entries):
        data = bytearray(next(e.data for e in entries if e.name == "merge" and e.kind is container.Kind.CUBIN))
        data[48] = 75
        return changed(entries, "merge.cubin", data=bytes(data))

    assert with_library(change=other_gpu) == [("device-cubin", "the sm_70 cubin of merge is unusable: it is for sm_75")]


@pytest.mark.parametrize(("data", "reason"), [(b"", "it is empty"), (b"x" * 99, "it is not an ELF file")])
def test_a_cubin_that_is_none(with_library, data, reason):
    found = with_library(change=lambda entries: changed(entries, "norm.cubin", data=data))
    assert found == [("device-cubin", f"the sm_70 cubin of norm is unusable: {reason}")]


def test_no_ptx(with_library):
    found = with_library(change=lambda entries: changed(entries, "kv_cache.ptx", data=b"\0"))
    assert found == [("device-ptx", "the compute_70 PTX of kv_cache is missing or unusable")]


@pytest.mark.parametrize("kernels", ["fly", "fused_add"])  # norm has fused_add_rms_norm's
def test_an_operator_without_kernels(with_library, kernels):
    def declare(entries):
        manifest = json.loads(entries[0].data)
        manifest["operators"]["fly"] = {"device_code": "norm", "kernels": kernels, "accumulation": "fp32"}
        return changed(entries, "manifest", data=json.dumps(manifest).encode())

    found = with_library(change=declare)
    assert found == [("device-missing", f"the operator fly has no kernel {kernels}_*_sm70 in the cubin of norm")]


def test_no_container(built, tmp_path):
    data = library(tmp_path)
    folder = tmp_path / "altered"
    folder.mkdir()
    found = faults(altered(built, folder, {LIBRARY: data}))
    assert found == [("device-missing", "it carries no device code container")]


def test_a_container_that_was_altered(built, tmp_path):
    data = members_of(built)[LIBRARY]
    at = data.index(b".target sm_70")
    folder = tmp_path / "altered"
    folder.mkdir()
    found = faults(altered(built, folder, {LIBRARY: data[:at] + b".target sm_71" + data[at + 13 :]}))
    assert [rule for rule, _ in found] == ["device-container"]
    assert re.fullmatch(r"the device code of \w+ does not match its SHA-256", found[0][1])


@pytest.mark.parametrize("name", ["toolkit/native/_C.abi3.so", "flash_attn_v100/ops.py", "toolkit/plan.py.orig"])
def test_stale_member(built, tmp_path, name):
    found = faults(altered(built, tmp_path, {name: b"left over"}))
    assert found == [("members", "nothing declares this member: it is left over from another build")]


def test_missing_library(built, tmp_path):
    assert faults(altered(built, tmp_path, {LIBRARY: None})) == [("members", "the wheel does not have it")]


def test_wrong_hash_in_record(built, tmp_path):
    path = altered(built, tmp_path, {}, record={"toolkit/errors.py": "sha256=AAAA,1"})
    assert faults(path) == [("record", "its hash or size is not what RECORD says")]


def test_record_lists_what_is_not_there(built, tmp_path):
    path = altered(built, tmp_path, {}, record={"toolkit/ghost.py": "sha256=AAAA,1"})
    assert faults(path) == [("record", "RECORD lists this member, but the wheel does not have it")]


def test_wrong_version_in_metadata(built, tmp_path):
    name = next(name for name in members_of(built) if name.endswith("/METADATA"))
    text = members_of(built)[name].replace(b"\nVersion: ", b"\nVersion: 9.")
    found = faults(altered(built, tmp_path, {name: text}))
    assert [rule for rule, _ in found] == ["metadata"]
    assert found[0][1].startswith("its version is ('9.")


def test_a_library_that_does_not_load_is_found_by_using_it(with_library):
    found = with_library()
    assert [rule for rule, _ in found] == ["import"]
    assert found[0][1] == "a new process cannot use it: RuntimeError: operator volta::rms_norm does not exist"


def test_a_member_outside_the_wheel_is_refused(built, tmp_path):
    path = altered(built, tmp_path, {"toolkit/../../evil.py": b""})
    with pytest.raises(
        CheckFailedError, match=r"^the wheel has a member outside its folder: toolkit/\.\./\.\./evil\.py\n"
    ):
        check_wheel(path)


def test_no_wheel_at_all(tmp_path):
    path = tmp_path / "x-1-py3-none-any.whl"
    path.write_bytes(b"no zip")
    with pytest.raises(CheckFailedError, match=r"^the wheel cannot be read\n"):
        check_wheel(path)


SM70, NEWER, OLD_PTX = (2, 70), [(2, 75), (1, 80)], (1, 52)
CANNOT = "it cannot run on a V100: it carries sm_75, compute_80"


@pytest.mark.parametrize(
    ("libraries", "runs", "verdict", "messages"),
    [
        ({"a/_C.so": [SM70, (2, 90)]}, True, "runs on a V100", []),
        ({"a/_C.so": [OLD_PTX]}, True, "runs on a V100", []),
        ({"a/_C.so": NEWER}, False, "does not run on a V100", [CANNOT]),
        (
            {"a/_C.so": [SM70, SM70], "a/_flash.so": NEWER, "a/host.so": []},
            False,
            "1 of 2 libraries with GPU code run on a V100",
            [CANNOT],
        ),
        ({"a/host.so": []}, None, "carries no GPU code", []),
    ],
)
def test_anyones_wheel_is_read_for_its_architectures(libraries, runs, verdict, messages, tmp_path):
    report = check_wheel(foreign_wheel(tmp_path, libraries))
    assert report.manifest["runs_on_v100"] is runs
    assert [finding.message for finding in report.findings] == messages
    assert text(report).splitlines()[0] == f"other-1.0-py3-none-manylinux_2_31_x86_64.whl: {verdict}"


def test_the_text_says_what_each_library_carries(tmp_path):
    lines = text(check_wheel(foreign_wheel(tmp_path, {"a/_C.so": [SM70, SM70], "a/_flash.so": NEWER}))).splitlines()
    assert lines[1:] == [
        "  runs on a V100  a/_C.so: sm_70 (2)",
        "  does not        a/_flash.so: sm_75 (1), compute_80 (1)",
        f"  no-sm70: a/_flash.so: {CANNOT}",
        "failed: 1 finding (1 of 2 libraries with GPU code run on a V100)",
    ]


def test_many_findings_of_one_rule_are_shown_by_a_few(tmp_path):
    report = check_wheel(foreign_wheel(tmp_path, {f"a/_{number}.so": NEWER for number in range(9)}))
    lines = text(report).splitlines()
    assert [line for line in lines if line.startswith("  no-sm70: a/")] == [f"  {f}" for f in report.findings[:3]]
    assert lines[-2:] == [
        "  no-sm70: 6 more; output=json lists all",
        "failed: 9 findings (does not run on a V100)",
    ]


def test_a_wheel_that_is_not_there_is_told_with_a_fix(tmp_path):
    with pytest.raises(CheckFailedError) as raised:
        check_wheel(tmp_path / "none.whl")
    assert (raised.value.why, raised.value.fix) == ("No such file or directory", "set wheel=FILE to a built wheel")


def test_many_private_paths_of_a_library_are_one_finding(with_library):
    paths = "".join(f'const char *volta_{name} = "/home/alice/work/{name}.cu";' for name in "abc")
    assert with_library(code=paths) == [
        ("private-path", "it holds a path of the build machine: /home/alice/work/a.cu (and 2 more)")
    ]
