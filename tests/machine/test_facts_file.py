"""Recorded machines: what is written is read back, and a bad file is an error that names the place."""

import json
from dataclasses import fields, replace
from pathlib import Path

import cli
import pytest
from recorded import NAMES, file_of, recorded

from toolkit.errors import ConfigurationError
from toolkit.machine import facts_file
from toolkit.machine.chosen import machine_facts
from toolkit.machine.facts import MachineFacts, Software
from toolkit.machine.probe import probe

LIBRARY = {
    "v100_sxm2_32gb_x4", "v100_pcie_16gb_x2_no_p2p", "mixed_cards", "driver_too_old", "cuda13_leftovers", "no_gpu",
    "h200", "v100_sxm2_32gb_x4_r580",
}  # fmt: skip

NEWER = ("links", "software", "extensions", "members", "native", "fetches_into", "unwritable")
"""Facts that came with later releases."""


def document(**changes):
    """A healthy machine's document; changes are dotted places with __ for the dot."""
    made = json.loads(file_of("v100_sxm2_32gb_x4").read_text())
    for place, value in changes.items():
        *groups, last = place.split("__")
        node = made
        for group in groups:
            node = node[int(group) if group.isdecimal() else group]
        if value is ...:
            del node[last]
        else:
            node[last] = value
    return made


def written(folder, made):
    path = folder / "facts.json"
    path.write_text(made if isinstance(made, str) else json.dumps(made))
    return path


def test_the_library_is_whole():
    assert set(NAMES) == LIBRARY


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_back(name, tmp_path):
    facts = recorded(name)
    assert facts_file.read(written(tmp_path, facts_file.to_json(facts))) == facts
    assert json.loads(file_of(name).read_text())["machine"] == facts_file.to_json(facts)["machine"]


@pytest.mark.parametrize("name", NAMES)
def test_a_record_does_not_contradict_itself(name):
    facts = recorded(name)
    free, memory = (sum(getattr(gpu, field) for gpu in facts.gpus) for field in ("free_bytes", "memory_bytes"))
    assert sum(process.gpu_bytes for process in facts.processes or ()) <= memory - free
    assert facts.available_bytes <= facts.memory_bytes
    assert {index for link in facts.links or () for index in (link.first, link.second)} <= {
        gpu.index for gpu in facts.gpus
    }
    assert {gpu.numa_node for gpu in facts.gpus} <= {None, *range(facts.numa_nodes or 0)}
    for folder in (facts.fetches_into or {}).values():
        assert any(Path(folder).is_relative_to(disk) for disk in facts.disks)
    if facts.software is None:
        return
    first = {copy.name: copy.version for copy in reversed(facts.software.distributions)}
    both = facts.packages.keys() & first.keys()
    assert {package: facts.packages[package] for package in both} == {package: first[package] for package in both}
    assert {copy.folder for copy in facts.software.distributions} <= {*facts.software.folders}
    version = "python{}.{}".format(*facts.python)
    assert all(version in folder for folder in facts.software.folders if "/lib/python" in folder)
    for fault in facts.members.faults if facts.members else ():
        assert first.get(fault.package, fault.version) == fault.version


def test_this_machine_can_be_recorded(tmp_path):
    facts = probe()
    path = written(tmp_path, facts_file.to_json(facts))
    assert facts_file.read(path) == facts
    assert machine_facts(str(path)) == facts


def test_a_doctors_whole_document_is_read_too(tmp_path):
    assert facts_file.read(written(tmp_path, {"schema": 1, "facts": document(), "findings": []})) == recorded(
        "v100_sxm2_32gb_x4"
    )


@pytest.mark.parametrize("field", [field.name for field in fields(MachineFacts)])
def test_no_fact_is_lost_on_the_way(field):
    facts = recorded("cuda13_leftovers")
    assert field in facts_file.to_json(facts)["machine"]


def test_a_record_of_an_older_toolkit_lacks_newer_facts(tmp_path):
    facts = facts_file.read(written(tmp_path, document(**{f"machine__{name}": ... for name in NEWER})))
    assert facts == replace(recorded("v100_sxm2_32gb_x4"), **dict.fromkeys(NEWER))
    assert isinstance(recorded("v100_sxm2_32gb_x4").software, Software)


BAD = [
    ("", "it is empty"),
    (" ", "wrong JSON at line 1, column 2: Expecting value"),
    ("[1]", "wrong JSON: an object is needed, this is an array"),
    ('{"schema": 1, "schema": 1}', "duplicate key 'schema'"),
    ("{}", "it has no 'schema' and 'machine'"),
    ({"schema": 1}, "it has no 'schema' and 'machine'"),
    (document(schema=2), "it has schema 2, and this toolkit reads schema 1"),
    (document(schema="1"), "it has schema '1', and this toolkit reads schema 1"),
    (document(extra=1), "unknown key 'extra'"),
    (document(machine=[]), "machine: it must be an object, not []"),
    (document(machine__cpu_count=...), "machine.cpu_count: it is absent"),
    (document(machine__cpu_count=True), "machine.cpu_count: it must be a whole number, not True"),
    (document(machine__cpu_count=4.0), "machine.cpu_count: it must be a whole number, not 4.0"),
    (document(machine__memory_bytes=-1), "machine.memory_bytes: -1 is less than nothing"),
    (document(machine__lockable_bytes=-2), "machine.lockable_bytes: -2 is less than nothing"),
    (document(machine__gpus__1__free_bytes=-1), "machine.gpus[1].free_bytes: -1 is less than nothing"),
    (document(machine__gpuz=[]), "machine.gpuz: there is no such fact"),
    (document(machine__gpus__2__name=7), "machine.gpus[2].name: it must be text, not 7"),
    (document(machine__gpus__2__uuid=...), "machine.gpus[2].uuid: it is absent"),
    (document(machine__gpus=3), "machine.gpus: it must be a list, not 3"),
    (
        document(machine__gpus__0__compute_capability=[7]),
        "machine.gpus[0].compute_capability: it must be a list of 2 items, and has 1",
    ),
    (document(machine__links__0__peer_access="yes"), "machine.links[0].peer_access: it must be true or false, not 'y"),
    (document(machine__packages__torch=None), "machine.packages.torch: it must be text, not None"),
    (document(machine__cpu_flags=[1]), "machine.cpu_flags[0]: it must be text, not 1"),
    (document(machine__software__ptxas={"a": 1}), "machine.software.ptxas.a: it must be true or false, not 1"),
]


@pytest.mark.parametrize(("made", "why"), BAD, ids=[why for _, why in BAD])
def test_a_bad_file_says_what_and_where(made, why, tmp_path):
    path = written(tmp_path, made)
    with pytest.raises(ConfigurationError) as caught:
        facts_file.read(path)
    assert caught.value.where == str(path)
    assert caught.value.why.startswith(why)
    assert caught.value.fix


def test_a_misspelt_fact_names_the_one_that_was_meant(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        facts_file.read(written(tmp_path, document(machine__gpuz=[])))
    assert caught.value.fix == "did you mean gpus?"


@pytest.mark.parametrize("damage", ["folder", "absent", "binary", "deep", "large"])
def test_what_is_no_file_of_facts(damage, tmp_path):
    path = tmp_path / "facts.json"
    if damage == "folder":
        path.mkdir()
    elif damage == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    elif damage == "deep":
        path.write_text("[" * 200_000)
    elif damage == "large":
        path.write_text(" " * (facts_file.LARGEST_BYTES + 1))
    with pytest.raises(ConfigurationError):
        facts_file.read(path)


def rules_of(*arguments):
    result = cli.call("plan", "+recipe=dcp2_e4m3", "output=json", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return {finding["rule"] for finding in json.loads(result.stdout)["findings"]}


def test_a_plan_is_checked_against_the_recorded_machine():
    assert "no-gpu" not in rules_of(f"machine.facts_file={file_of('v100_sxm2_32gb_x4')}")
    assert "gpu-not-sm70" in rules_of(f"machine.facts_file={file_of('mixed_cards')}")
    assert "no-gpu" in rules_of(f"machine.facts_file={file_of('no_gpu')}")


def test_a_bad_file_is_a_mistake_and_no_traceback(tmp_path):
    result = cli.call("plan", f"machine.facts_file={tmp_path}/none.json")
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == "error: the machine facts cannot be read"
    assert "Traceback" not in result.stderr
