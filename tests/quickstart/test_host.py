"""Machines that the pinned packages have builds for, and others."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from toolkit.setup import __main__ as quickstart
from toolkit.setup import host


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("glibc 2.31", None),
        ("glibc 2.100", None),
        ("glibc 3.0", None),
        ("glibc 2.28", "the C library is glibc 2.28, older than 2.31"),
        ("glibc", "the C library is not glibc"),
        ("musl 1.2.5", "the C library is not glibc"),
        (None, "the C library is not glibc"),
    ],
)
def test_the_c_library_decides(monkeypatch: pytest.MonkeyPatch, said: str | None, why: str | None) -> None:
    monkeypatch.setattr(os, "confstr", lambda _name: said)
    assert host.unfit() == why


def test_a_c_library_without_a_version_is_not_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_name: str) -> str:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "confstr", unknown)
    assert host.unfit() == "the C library is not glibc"


def test_another_processor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Name(tuple[str, ...]):
        machine = "aarch64"

    monkeypatch.setattr(os, "uname", lambda: Name(("Linux", "node", "6", "1", "aarch64")))
    assert host.unfit() == "Linux aarch64"


def test_quickstart_says_so_before_it_installs_anything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quickstart, "host", SimpleNamespace(unfit=lambda: "too old", OLDEST_GLIBC=(2, 31)))
    monkeypatch.setattr(quickstart.sys, "argv", ["quickstart", "setup"])
    monkeypatch.setattr(quickstart, "ensure", lambda *_: pytest.fail("it installs"))
    monkeypatch.setattr(quickstart.signal, "signal", lambda *_: None)
    assert quickstart.main() == 5
    assert "with glibc 2.31 or newer\n  why: too old" in capsys.readouterr().err
