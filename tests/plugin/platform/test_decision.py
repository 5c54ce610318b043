"""The decision for everything that a process may find: each outcome with its sentence."""

from __future__ import annotations

import dataclasses

import pytest

from toolkit.planning.platform_demand import Demand
from toolkit.plugin.platform import entry
from toolkit.plugin.platform.decision import Decision, Found, Outcome, decide
from toolkit.plugin.platform.entry import CLASSES
from toolkit.plugin.platform.refused import RefusedPlatform

V100 = Found(
    capabilities=((7, 0),),
    vllm="0.32.0",
    torch="2.10.0+cu128",
    torch_cuda="12.8",
    torch_archs=("sm_70", "sm_75"),
    library_error=None,
)
NEWER = dataclasses.replace(V100, capabilities=((9, 0),), torch_archs=("sm_75", "sm_90"))
INACTIVE, ACTIVE, REFUSED = Outcome.inactive, Outcome.active, Outcome.refused


def refused(reason: str) -> Decision:
    return Decision(REFUSED, reason)


MIXED_SENTENCE = (
    "the visible GPUs differ (7.0, 9.0): choose equal ones with CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER=PCI_BUS_ID"
)
PROVE_SENTENCE = (
    "the visible GPUs are 9.0, and a V100 is 7.0: to prove the V100's routes on them, set engine.prove_on_any_gpu=true"
)
NO_GPU = "no NVIDIA GPU is visible: look at nvidia-smi and at CUDA_VISIBLE_DEVICES"


@pytest.mark.parametrize("demand", Demand)
@pytest.mark.parametrize("count", [1, 2, 8])
def test_v100s_alone_are_served_whatever_is_demanded(demand: Demand, count: int) -> None:
    found = dataclasses.replace(V100, capabilities=((7, 0),) * count)
    assert decide(demand, found) == Decision(ACTIVE, f"{count} visible: {', '.join(['7.0'] * count)}")


@pytest.mark.parametrize(
    ("capabilities", "names"), [((), "none"), (((9, 0),), "9.0"), (((7, 0), (9, 0)), "7.0, 9.0"), (((6, 1),), "6.1")]
)
def test_without_a_demand_other_gpus_are_left_to_vllm_whatever_else_is_wrong(
    capabilities: tuple[tuple[int, int], ...], names: str
) -> None:
    found = Found(capabilities, "9.9", "9.9", "13.0", (), "broken")
    assert decide(Demand.none, found) == Decision(INACTIVE, f"the visible GPUs are {names}, not V100s alone")


def test_without_a_demand_a_torch_without_cuda_is_left_to_vllm() -> None:
    """As the CPU engine on a machine with V100s."""
    assert decide(Demand.none, dataclasses.replace(V100, torch_cuda=None)).outcome is INACTIVE


@pytest.mark.parametrize("demand", [Demand.v100, Demand.any_gpu])
@pytest.mark.parametrize(
    ("capabilities", "sentence"),
    [
        ((), NO_GPU),
        (((7, 0), (9, 0)), MIXED_SENTENCE),
        (((6, 1),), "the visible GPUs are 6.1, older than the V100's 7.0"),
    ],
)
def test_gpus_that_cannot_serve_are_refused(
    demand: Demand, capabilities: tuple[tuple[int, int], ...], sentence: str
) -> None:
    assert decide(demand, dataclasses.replace(V100, capabilities=capabilities)) == refused(sentence)


def test_a_newer_gpu_is_for_a_proof_only() -> None:
    assert decide(Demand.v100, NEWER) == refused(PROVE_SENTENCE)
    assert decide(Demand.any_gpu, NEWER) == Decision(ACTIVE, "1 visible: 9.0")


OTHER_VLLM = (
    ", and this plugin is made for 0.32.x: pip install vllm==0.32.0, or set VLLM_PLUGINS= to leave vLLM as it is"
)
SOFTWARE = [
    ({"vllm": "0.33.0"}, f"vLLM is 0.33.0{OTHER_VLLM}"),
    ({"vllm": "0.320.0"}, f"vLLM is 0.320.0{OTHER_VLLM}"),
    (
        {"torch": "2.13.0", "torch_archs": ("sm_70",)},
        "torch is 2.13.0, and this plugin is made for 2.10: pip install torch==2.10.0",
    ),
    (
        {"torch_archs": ("sm_75", "sm_700")},
        "torch 2.10.0+cu128 has no code for sm_70: pip install torch==2.10.0 from PyPI",
    ),
    (
        {"library_error": "the native library is not built: invoke build"},
        "the native library is not built: invoke build",
    ),
]


@pytest.mark.parametrize("demand", Demand)
@pytest.mark.parametrize(("changed", "sentence"), SOFTWARE)
def test_software_that_does_not_fit_is_refused_on_a_v100(
    demand: Demand, changed: dict[str, object], sentence: str
) -> None:
    assert decide(demand, dataclasses.replace(V100, **changed)) == refused(sentence)


@pytest.mark.parametrize("capabilities", [(), ((9, 0),), ((7, 0), (9, 0))])
def test_another_vllm_is_named_before_the_gpus_that_it_may_not_even_list(
    capabilities: tuple[tuple[int, int], ...],
) -> None:
    found = dataclasses.replace(V100, vllm="0.41.0", capabilities=capabilities)
    assert decide(Demand.v100, found) == refused(f"vLLM is 0.41.0{OTHER_VLLM}")


@pytest.mark.parametrize("demand", [Demand.v100, Demand.any_gpu])
def test_a_torch_without_cuda_is_refused_where_the_platform_is_demanded(demand: Demand) -> None:
    found = dataclasses.replace(V100, torch="2.13.0+cpu", torch_cuda=None)
    assert decide(demand, found) == refused("torch 2.13.0+cpu has no CUDA: pip install torch==2.10.0")


def test_the_proof_runs_on_a_torch_without_sm_70() -> None:
    assert decide(Demand.any_gpu, dataclasses.replace(NEWER, torch="2.11.0")).outcome is ACTIVE


def broken(_: object) -> Decision:
    raise OSError("no such driver")


def test_a_fault_of_the_plugin_is_a_refusal_where_the_platform_was_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a platform plugin raises, vLLM notes at debug level only, and then it starts its own platform."""
    monkeypatch.setattr(entry, "decide_here", broken)
    monkeypatch.setenv("VOLTA_PLATFORM", "v100")
    assert entry.platform_class() == CLASSES[REFUSED]
    with pytest.raises(RuntimeError, match=r"^engine=v100 cannot start: OSError: no such driver$"):
        RefusedPlatform()


def test_a_fault_of_the_plugin_is_told_where_it_was_not_demanded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(entry, "decide_here", broken)
    monkeypatch.delenv("VOLTA_PLATFORM", raising=False)
    with caplog.at_level("ERROR", "vllm.volta"):
        assert entry.platform_class() is None
    assert caplog.messages == ["The volta plugin failed and leaves vLLM as it is: OSError: no such driver"]


def test_each_outcome_has_its_class() -> None:
    assert CLASSES.keys() == set(Outcome)
    assert CLASSES[INACTIVE] is None
