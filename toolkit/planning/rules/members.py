"""Rules about the files of installed packages: whether they are those that were installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolkit.machine.facts import Member
from toolkit.planning.plan import Severity
from toolkit.planning.rules.gpus import on_gpu
from toolkit.planning.rules.rule import Context, Problem, Rule, not_looked_at

FILES = "the installed packages' files were"
ENGINES_LIBRARIES = "vllm/"


def package_files_missing(context: Context) -> Iterator[Problem]:
    """A package that lost a part is found out at the import of that part, long after the start."""
    for member, count in _faults(context, lambda member: member.found_bytes is None):
        yield Problem(
            member.package,
            f"of its files, {count} {'is' if count == 1 else 'are'} gone: {member.path}{_and_more(count)}",
            _again(member),
        )
    if context.machine.members is None:
        yield not_looked_at("packages", FILES)


def package_files_changed(context: Context) -> Iterator[Problem]:
    """A file that was edited or overwritten by another package is not what its version says."""
    for member, count in _faults(context, lambda member: member.found_bytes is not None):
        yield Problem(
            member.package,
            f"of its files, {count} {'has' if count == 1 else 'have'} another size than was installed: "
            f"{member.path}{_and_more(count)}",
            _again(member),
        )


def package_files_unknown(context: Context) -> Iterator[Problem]:
    """A package without a record, or one that time ran out for, may lack anything."""
    members = context.machine.members
    if members is not None:
        for name in members.without_record:
            yield Problem(name, "its installer kept no record of its files", "install it with pip or uv")
        for name in members.unread:
            yield Problem(name, "time ran out before its files were compared", "run doctor again: it is faster then")


def _faults(context: Context, wrong: Callable[[Member], bool]) -> Iterator[tuple[Member, int]]:
    """The first wrong file of each package, and how many there are."""
    found: dict[str, list[Member]] = {}
    for member in context.machine.members.faults if context.machine.members is not None else ():
        kept_out = on_gpu(context) and member.path.startswith(ENGINES_LIBRARIES) and ".so" in member.path
        if wrong(member) and not kept_out:  # the platform lets none of vLLM's own libraries be loaded
            found.setdefault(member.package, []).append(member)
    for members in found.values():
        yield members[0], len(members)


def _and_more(count: int) -> str:
    return " and others" if count > 1 else ""


def _again(member: Member) -> str:
    return f"install it again: pip install --force-reinstall --no-deps {member.package}=={member.version}"


RULES = (
    Rule(
        "package-files-missing",
        "Installed packages are whole",
        Severity.refuse,
        package_files_missing,
        "1CatAI/1Cat-vLLM issues 42, 72 and 108; vllm-project/vllm issue 7112",
    ),
    Rule(
        "package-files-changed",
        "Installed packages are unchanged",
        Severity.warn,
        package_files_changed,
        "Python Packaging User Guide, page 'Recording installed projects'",
    ),
    Rule(
        "package-files-unknown",
        "Every package's files could be compared",
        Severity.unchecked,
        package_files_unknown,
        "docs/doctor.md",
    ),
)
