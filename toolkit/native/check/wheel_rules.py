"""Rules about the wheel as a whole: RECORD, METADATA, and members that nothing declares."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.native.check.finding import Finding
from toolkit.native.check.policy import Policy
from toolkit.native.check.wheel import Wheel, record_entry

LIBRARY = "toolkit/native/volta_native.so"
_OUR_MEMBERS = re.compile(
    r"toolkit/(?:[\w-]+/)*[\w.-]+\.(?:py|yaml|json|txt|toml|md|jinja|service|typed|sha256)|toolkit/native/volta_native\.so"
)


def check(wheel: Wheel, policy: Policy) -> Iterator[Finding]:
    """All faults of the wheel's own books."""
    yield from _record(wheel)
    yield from _metadata(wheel)
    if policy.ours:
        yield from _members(wheel)


def _record(wheel: Wheel) -> Iterator[Finding]:
    where = f"{wheel.dist_info}/RECORD"
    unlisted = {where, f"{where}.jws", f"{where}.p7s"}
    for name in sorted({name for name in wheel.names if wheel.names.count(name) > 1}):
        yield Finding("record", name, "the wheel has this member twice")
    for name in sorted(set(wheel.members) - set(wheel.record) - unlisted):
        yield Finding("record", name, "RECORD does not list this member")
    for name in sorted(set(wheel.record) - set(wheel.members)):
        yield Finding("record", name, "RECORD lists this member, but the wheel does not have it")
    for name in sorted(set(wheel.record) & set(wheel.members) - unlisted):
        if wheel.record[name] != record_entry(wheel.members[name]):
            yield Finding("record", name, "its hash or size is not what RECORD says")


def _metadata(wheel: Wheel) -> Iterator[Finding]:
    where = f"{wheel.dist_info}/METADATA"
    names, versions = wheel.header("METADATA", "Name"), wheel.header("METADATA", "Version")
    if [re.sub(r"[-_.]+", "_", name).lower() for name in names] != [wheel.name.lower()]:
        yield Finding("metadata", where, f"its name is {names}, the file is called {wheel.name}")
    if versions != (wheel.version,):
        yield Finding("metadata", where, f"its version is {versions}, the file is called {wheel.version}")
    if wheel.dist_info != f"{wheel.name}-{wheel.version}.dist-info":
        yield Finding("metadata", wheel.dist_info, f"the file is called {wheel.path.name}")
    tags = wheel.header("WHEEL", "Tag")
    if sorted(tags) != sorted(_expanded(wheel.tag)):
        yield Finding("metadata", f"{wheel.dist_info}/WHEEL", f"its tags are {tags}, the file is tagged {wheel.tag}")


def _expanded(tag: str) -> list[str]:
    python, abi, platform = (part.split(".") for part in tag.split("-"))
    return [f"{a}-{b}-{c}" for a in python for b in abi for c in platform]


def _members(wheel: Wheel) -> Iterator[Finding]:
    if LIBRARY not in wheel.members:
        yield Finding("members", LIBRARY, "the wheel does not have it", "invoke build")
    for name in sorted(set(wheel.members)):
        if not name.startswith(f"{wheel.dist_info}/") and not _OUR_MEMBERS.fullmatch(name):
            yield Finding("members", name, "nothing declares this member: it is left over from another build")
