"""Reading GPUs through a stand-in for nvidia-ml-py: there is no GPU where the suite runs. Its answers are a V100's."""
# ruff: noqa: N802 - the library's own names

import sys
from types import SimpleNamespace

import pytest

from toolkit.machine import nvml
from toolkit.machine.facts import Gpu, Link
from toolkit.machine.guard import CannotReadError
from toolkit.machine.probe import probe


class Library:
    """The part of the module that is asked, for two V100s behind one switch."""

    NVML_P2P_STATUS_OK, NVML_P2P_CAPS_INDEX_READ, NVML_P2P_CAPS_INDEX_WRITE, NVML_P2P_CAPS_INDEX_NVLINK = 0, 0, 1, 2

    class NVMLError(Exception):
        pass

    def __init__(self, count=2, peers=(0, 0, 1), level=10, broken=""):
        self.count, self.peers, self.level, self.broken = count, peers, level, broken

    def __getattribute__(self, name):
        if name.startswith("nvml") and name == object.__getattribute__(self, "broken"):
            raise Library.NVMLError("GPU is lost")
        return object.__getattribute__(self, name)

    def nvmlInit(self): ...

    def nvmlDeviceGetCount(self):
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetName(self, handle):
        return "Tesla V100-PCIE-16GB"

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}"

    nvmlMemory_v2 = 0x02000028  # noqa: N815 - the library's own name

    def nvmlDeviceGetMemoryInfo(self, handle, version=None):
        found = {"total": 1000, "free": 990 - handle}
        return SimpleNamespace(**found if version is None else {**found, "reserved": 10})

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        return 7, 0

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(busId=f"00000000:0{handle}:00.0")

    def nvmlDeviceGetP2PStatus(self, first, second, capability):
        return self.peers[capability]

    def nvmlDeviceGetTopologyCommonAncestor(self, first, second):
        return self.level

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        shared, own = SimpleNamespace(pid=7, usedGpuMemory=100), SimpleNamespace(pid=8 + handle, usedGpuMemory=None)
        return [shared, own]


@pytest.fixture
def driver_there(monkeypatch, tmp_path):
    monkeypatch.setattr(nvml, "SIGNS", (tmp_path,))

    def install(library):
        monkeypatch.setitem(sys.modules, "pynvml", library)

    return install


class OlderPackage(Library):
    """Before it knew of the second version."""

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=1000, free=990 - handle)


class WithoutConstant(Library):
    @property
    def nvmlMemory_v2(self):
        raise AttributeError


class OlderDriver(Library):
    """Before R510, of which the second version's function cannot be found."""

    def nvmlDeviceGetMemoryInfo(self, handle, version=None):
        if version is not None:
            raise Library.NVMLError("Function Not Found")
        return super().nvmlDeviceGetMemoryInfo(handle)


def gpu(index, reserved=10):
    return Gpu(index, "Tesla V100-PCIE-16GB", f"GPU-{index}", (7, 0), 1000, 990 - index, None, reserved)


def test_two_gpus(driver_there):
    driver_there(Library())
    board = nvml.read_board()
    assert board.gpus == (gpu(0), gpu(1))
    assert board.links == (Link(0, 1, "switch", True),)
    assert board.gpu_bytes == {7: 200, 8: 0, 9: 0}


@pytest.mark.parametrize("library", [OlderPackage, WithoutConstant, OlderDriver])
def test_a_library_that_does_not_say_what_the_driver_reserves(driver_there, library):
    driver_there(library())
    assert nvml.read_board().gpus == (gpu(0, None), gpu(1, None))


@pytest.mark.parametrize(
    ("peers", "level", "link"),
    [
        ((0, 0, 0), 50, Link(0, 1, "nvlink", True)),
        ((0, 0, 1), 0, Link(0, 1, "board", True)),
        ((0, 0, 1), 20, Link(0, 1, "switches", True)),
        ((1, 0, 1), 30, Link(0, 1, "host-bridge", False)),
        ((0, 1, 1), 40, Link(0, 1, "node", False)),
        ((1, 1, 1), 50, Link(0, 1, "system", False)),
        ((1, 1, 1), 60, Link(0, 1, "level 60", False)),
    ],
)
def test_how_gpus_reach_each_other(driver_there, peers, level, link):
    driver_there(Library(peers=peers, level=level))
    assert nvml.read_board().links == (link,)


def test_each_pair_once(driver_there):
    driver_there(Library(count=4))
    links = nvml.read_board().links
    assert [(link.first, link.second) for link in links] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo"])
def test_a_driver_that_does_not_answer(driver_there, function):
    driver_there(Library(broken=function))
    with pytest.raises(CannotReadError, match="the driver answers: GPU is lost"):
        nvml.read_board()


def test_a_driver_that_does_not_know_peers_or_processes(driver_there):
    driver_there(Library(broken="nvmlDeviceGetP2PStatus"))
    assert nvml.read_board().links is None
    driver_there(Library(broken="nvmlDeviceGetComputeRunningProcesses"))
    assert nvml.read_board().gpu_bytes == {}


def test_a_machine_with_a_driver_and_without_the_package(driver_there):
    driver_there(None)  # an import of it fails
    with pytest.raises(CannotReadError, match="nvidia-ml-py is not installed"):
        nvml.read_board()


def test_a_machine_without_a_driver(monkeypatch, tmp_path):
    monkeypatch.setattr(nvml, "SIGNS", (tmp_path / "none",))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.read_board() == nvml.Board()


def test_the_facts_hold_what_is_visible(driver_there, monkeypatch):
    driver_there(Library(count=3))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    facts = probe()
    assert [gpu.index for gpu in facts.gpus] == [2, 0]
    assert (facts.hidden_gpus, facts.visible_devices) == (1, "2,0")
    assert [(link.first, link.second) for link in facts.links] == [(0, 2)]
    assert "gpus" not in facts.unread


def test_gpus_that_cannot_be_read_are_no_missing_gpus(driver_there):
    driver_there(Library(broken="nvmlInit"))
    facts = probe()
    assert facts.gpus == ()
    assert facts.links is None
    assert facts.unread["gpus"] == "the driver answers: GPU is lost"
