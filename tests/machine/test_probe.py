"""Probing this machine, against what the machine itself says."""

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.machine import probe as probing
from toolkit.machine.probe import bind_error, is_busy, probe, unusable


@pytest.fixture
def listener():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def test_this_machine():
    facts = probe()
    assert facts.architecture == platform.machine()
    assert facts.cpu_count == len(os.sched_getaffinity(0))
    assert facts.memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < facts.available_bytes <= facts.memory_bytes
    assert facts.python == sys.version_info[:3]
    assert facts.executable == sys.executable
    assert facts.packages["hydra-core"].startswith("1.3.")
    assert facts.busy_ports == frozenset()
    assert facts.unusable_hosts == {}


def test_instruction_sets_are_the_kernels():
    flags = probe().cpu_flags
    assert "sse2" in flags
    assert flags <= set(Path("/proc/cpuinfo").read_text().split())


def test_a_package_that_is_not_installed_is_left_out():
    assert set(probing.installed(["hydra-core", "no-such-package-anywhere"])) == {"hydra-core"}


def test_only_the_engines_variables_are_facts(monkeypatch):
    monkeypatch.setenv("VLLM_FLASH_V100_DECODE_USE_XQA", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    environment = probe().environment
    assert environment["VLLM_FLASH_V100_DECODE_USE_XQA"] == "1"
    assert all(name.startswith("VLLM_") for name in environment)


def test_a_port_that_something_listens_on(listener):
    assert is_busy("127.0.0.1", listener)
    assert unusable("127.0.0.1", listener) is None
    facts = probe([("127.0.0.1", listener), ("127.0.0.1", free_port())])
    assert facts.busy_ports == {listener}


def test_a_port_is_busy_where_something_listens_on_every_address():
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", 0))
        server.listen()
        assert is_busy("127.0.0.1", server.getsockname()[1])


def test_a_port_whose_last_connection_lingers_is_free():
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the engine's own server does
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()  # this end closes first, so it is the one that waits
    assert not is_busy("127.0.0.1", port)


def test_looking_at_a_port_does_not_take_it():
    port = free_port()
    assert not is_busy("127.0.0.1", port)
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("no-such-host.invalid", "the name is not known here"),
        ("\u00e9..x", "the name is not known here"),
        ("a" * 300, "the name is not known here"),
        ("192.0.2.1", "this machine has no such address"),
        ("2001:db8::1", "this machine has no such address"),
    ],
)
def test_an_address_that_is_not_this_machines(host, reason):
    port = free_port()
    assert not is_busy(host, port)
    if ":" in host and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    assert unusable(host, port) == reason
    assert probe([(host, port)]).unusable_hosts == {host: reason}


@pytest.mark.parametrize("port", [-1, 65536, 10**20])
def test_what_is_no_port_is_neither_busy_nor_an_exception(port):
    assert bind_error("127.0.0.1", port) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may listen on every port")
def test_a_reserved_port():
    assert unusable("127.0.0.1", 1) in (None, "port 1 is reserved for the administrator")


def test_probing_is_cheap_in_imports():
    code = (
        "import sys; from toolkit.machine.probe import probe; probe([('127.0.0.1', 8000)]);"
        "print([name for name in ('torch', 'numpy', 'transformers', 'vllm', 'httpx', 'rich') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
