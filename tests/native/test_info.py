import dataclasses
import json
import subprocess
import sys

import pytest

from toolkit.errors import CheckFailedError
from toolkit.native import build, fakes, info, library


def test_the_library_says_what_it_is(built, root):
    facts = info()
    assert facts.architectures == ("compute_70", "sm_70")
    assert {operator.name for operator in facts.operators} == {*fakes.MUTATING, *fakes.MAKING}
    assert facts.kernels_sha256 == build.sources_digest(root / "kernels")
    assert json.loads((root / "kernels" / "operators.json").read_text("utf-8"))["abi_revision"] == facts.abi_revision
    assert all(len(code.sha256) == 64 for code in facts.device_code)
    assert dataclasses.asdict(facts)["path"] == str(library.find())


def test_every_declared_operator_is_defined_for_both_devices(volta):
    import torch

    for name in fakes.MUTATING:
        for key in ("CPU", "CUDA", "Meta"):
            assert torch._C._dispatch_has_kernel_for_dispatch_key(f"volta::{name}", key), (name, key)


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, toolkit.native; print([m for m in ('torch', 'elftools', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_library_that_is_not_built_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "FILE_NAME", "absent.so")
    with pytest.raises(CheckFailedError) as caught:
        library.find()
    assert caught.value.what == "the native library is not built"
    assert caught.value.fix == "invoke build, or install a wheel that it made"
