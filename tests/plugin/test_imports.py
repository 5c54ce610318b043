"""The folders that a process imported from, read off its own modules: in processes of their own, so all is real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from toolkit.plugin.imports import NAMED, import_roots

PROGRAM = """
import json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
{imports}
from toolkit.plugin.imports import import_roots
print(json.dumps([[root.folder, root.modules, root.count] for root in import_roots(sys.modules, os.environ)]))
"""


def roots_of(imports: str, *path: Path, env: dict[str, str] | None = None) -> dict[str, tuple[list[str], int]]:
    program = PROGRAM.format(imports=imports)
    command = [sys.executable, "-c", program, json.dumps([str(folder) for folder in path])]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **(env or {})})
    return {folder: (modules, count) for folder, modules, count in json.loads(done.stdout)}


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_environments_own_folders_are_told():
    roots = roots_of("import pytest, numpy")
    assert roots[sysconfig.get_path("purelib")][1] >= len({"numpy", "pytest"})
    assert "__future__" in roots[sysconfig.get_path("stdlib")][0]


def test_a_folders_first_modules_are_named_and_all_are_counted(tmp_path):
    names = [f"part{number}" for number in range(NAMED + 2)]
    for name in names:
        write(tmp_path / f"{name}.py")
    assert roots_of(f"import {', '.join(reversed(names))}", tmp_path)[str(tmp_path)] == (names[:NAMED], NAMED + 2)


def test_modules_that_are_built_into_the_interpreter_have_no_folder():
    built_in = {name: sys.modules[name] for name in ("builtins", "sys")}
    assert import_roots(built_in, {}) == ()


@pytest.mark.parametrize("file", ["stray.py", "stray/__init__.py"])
def test_any_module_from_elsewhere_is_seen(tmp_path, file):
    write(tmp_path / file)
    assert roots_of("import stray", tmp_path)[str(tmp_path)] == (["stray"], 1)


def test_a_module_that_shadows_the_standard_librarys_is_seen(tmp_path):
    write(tmp_path / "colorsys.py")
    assert roots_of("import colorsys", env={"PYTHONPATH": str(tmp_path)})[str(tmp_path)] == (["colorsys"], 1)


def test_a_submodule_from_another_folder_than_its_package_is_seen(tmp_path):
    write(tmp_path / "one/pack/__init__.py", "__path__.append(__path__[0].replace('one', 'two'))\n")
    write(tmp_path / "two/pack/part.py")
    roots = roots_of("import pack.part", tmp_path / "one")
    assert roots[str(tmp_path / "one")] == (["pack"], 1)
    assert roots[str(tmp_path / "two")] == (["pack"], 1)


def test_a_namespace_package_counts_where_its_modules_are(tmp_path):
    write(tmp_path / "one/space/part.py")
    (tmp_path / "two/space").mkdir(parents=True)
    roots = roots_of("import space.part", tmp_path / "one", tmp_path / "two")
    assert str(tmp_path / "one") in roots
    assert str(tmp_path / "two") not in roots


def test_a_module_that_was_given_another_name_is_named_in_full(tmp_path):
    write(tmp_path / "renamed.py")
    load = "import importlib.util as u; s = u.spec_from_file_location('a.b', '{}'); m = u.module_from_spec(s)"
    roots = roots_of(f"{load.format(tmp_path / 'renamed.py')}; sys.modules['a.b'] = m")
    assert roots[str(tmp_path)] == (["a.b"], 1)


def test_generated_modules_are_told_by_their_cache(tmp_path):
    modules = {}
    for key in ("ab", "cd"):
        module = ModuleType(f"torch._inductor.runtime.compile_tasks.c{key}")
        module.__file__ = str(tmp_path / key / f"c{key}.py")
        modules[module.__name__] = module
    (root,) = import_roots(modules, {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
    assert (root.folder, root.count, root.generated) == (str(tmp_path), 2, True)


def test_what_lies_beside_a_checkpoints_own_code_is_not_generated(tmp_path):
    modules = {}
    for name in ("transformers_modules.tiny.modeling", "regex"):
        modules[name] = ModuleType(name)
        modules[name].__file__ = str(tmp_path / f"{name.replace('.', '/')}.py")
    roots = import_roots(modules, {"HF_MODULES_CACHE": str(tmp_path)})
    assert [(root.folder, root.modules, root.generated) for root in roots] == [
        (str(tmp_path), ("regex",), False),
        (str(tmp_path), ("transformers_modules",), True),
    ]


def test_no_lazy_module_is_loaded_for_it(tmp_path):
    write(tmp_path / "lazy.py", "raise SystemExit('loaded')\n")
    lazily = "import importlib.util as u; s = u.find_spec('lazy'); s.loader = u.LazyLoader(s.loader); "
    roots = roots_of(f"{lazily}m = u.module_from_spec(s); sys.modules['lazy'] = m; s.loader.exec_module(m)", tmp_path)
    assert roots[str(tmp_path)] == (["lazy"], 1)


@pytest.mark.parametrize("file", [None, "", 3, "<string>"])
def test_what_has_no_file_is_left_out(file):
    module = ModuleType("odd")
    module.__file__ = file
    assert import_roots({"odd": module, "none": None, "number": 3}, {}) == ()
