"""Cases of rules about GPUs: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.machine.facts import EngineProcess, Link
from toolkit.planning.plan import Severity

config, on_v100, gpus, v100 = cases.config, cases.on_v100, cases.gpu_machine, cases.v100
R580, CURED = "install a driver of branch R580", {"engine__environment": {"NCCL_P2P_DISABLE": "1"}}
NO_CUSTOM = {"engine__extra_arguments": ["--disable-custom-all-reduce"]}
MIXED = (v100(0), v100(1, name="Tesla V100-PCIE-16GB", memory_bytes=16935550976))
CURE = "set ++engine.environment.NCCL_P2P_DISABLE=1 and add --disable-custom-all-reduce to engine.extra_arguments"
LIST = "list each GPU once, by index or by whole UUID; `nvidia-smi -L` prints both"
TWO, V100 = {"limits__tensor_parallel": 2}, 34072428544
SHARE, CONTEXT = 30665185690, 319 * 2**20
"""Bytes of 0.9 of such a card, and of a context."""
BEGUN = CONTEXT + 176 * 2**20
"""With the buffers of one NCCL communicator of two ranks."""
TAKES_OF = "that are free the engine takes 0.31 GiB before"
ENDS = "end what holds it, or set limits.gpu_memory_utilization=0.95"
TAKES, SHARE_OPTION = "the engine takes", "limits.gpu_memory_utilization"
NVML = 34359738368
"""Bytes of the same card as NVML counts them since R510: 32768 MiB."""
FACTS, SHAPELESS = cases.facts(), cases.facts(config={})


def with_driver(version, **changes):
    return gpus(driver=version, driver_library=version, **changes)


def apart(first, second, path="host-bridge"):
    says = f"they cannot reach each other's memory (paths meet at: {path}), and two ranks may crash or hang"
    return (f"GPUs {first} and {second}", says, CURE)


def process(**changes):
    usual = {"pid": 77, "title": "VLLM::EngineCore", "orphaned": False}
    return (EngineProcess(**{**usual, **changes}),)


CASES = [
    *(
        Case(
            "driver-too-old",
            ("driver", f"driver {version} is older than CUDA 12 needs, which is 525.60.13", R580),
            on_v100(),
            machine=with_driver(version),
        )
        for version in ("470.57.02", "525.60.12", "524.99", "525")
    ),
    *(
        Case("driver-too-old", None, on_v100(), machine=with_driver(version))
        for version in ("525.60.13", "525.60.13.1", "570.86.15", "1000.1")
    ),
    Case("driver-too-old", None, config(), machine=with_driver("470.57.02")),
    Case("driver-too-old", None, on_v100(), machine=with_driver("470.57.02", gpus=())),
    waits("driver-too-old", "driver", "the driver's version could not be read", on_v100(), machine=gpus(driver=None)),
    *(
        Case(
            "driver-before-cuda",
            (
                "driver",
                f"driver {version} is older than CUDA 12.8, which came with 570.26: code compiled at run time may fail",
                "install a driver of branch R570 or R580",
            ),
            on_v100(),
            machine=with_driver(version),
        )
        for version in ("525.60.13", "535.86.10", "570.25")
    ),
    *(
        Case("driver-before-cuda", None, on_v100(), machine=with_driver(version))
        for version in ("525.60.12", "570.26", "580.95.05")
    ),
    Case("driver-before-cuda", None, config(), machine=with_driver("535.86.10")),
    Case("driver-before-cuda", None, on_v100(), machine=with_driver("535.86.10", gpus=())),
    Case("driver-before-cuda", None, on_v100(), machine=with_driver(None)),
    Case(
        "driver-without-volta",
        ("driver", "driver 590.44.01 sees no GPU here, and R580 was the last branch that supports a V100", R580),
        on_v100(),
        machine=with_driver("590.44.01", gpus=()),
    ),
    Case(
        "driver-without-volta",
        ("driver", "driver 581.15 sees no GPU here, and R580 was the last branch that supports a V100", R580),
        on_v100(),
        machine=with_driver("581.15", gpus=()),
    ),
    Case("driver-without-volta", None, on_v100(), machine=with_driver("580.95.05", gpus=())),
    Case("driver-without-volta", None, on_v100(), machine=with_driver("590.44.01")),
    Case("driver-without-volta", None, on_v100(), machine=with_driver(None, gpus=())),
    Case("driver-without-volta", None, config(), machine=with_driver("590.44.01", gpus=())),
    Case("driver-without-volta", None, on_v100(), machine=with_driver("590.1", gpus=(), unread={"gpus": "lost"})),
    Case(
        "driver-library-differs",
        (
            "driver",
            "the kernel runs driver 570.86.15 and programs load libcuda 535.86.10, which may end with error 803 or 804",
            "reboot after a driver update; in a container, remove the cuda-compat libraries if CUDA does not start",
        ),
        on_v100(),
        machine=gpus(driver_library="535.86.10"),
    ),
    Case("driver-library-differs", None, on_v100(), machine=gpus()),
    waits(
        "driver-library-differs",
        "driver",
        "no libcuda was found where programs look for it",
        on_v100(),
        fix="install the driver's libraries",
        machine=gpus(driver_library=None),
    ),
    Case("driver-library-differs", None, on_v100(), machine=gpus(driver=None)),
    Case("driver-library-differs", None, config(), machine=gpus(driver_library="535.86.10")),
    Case(
        "visible-devices",
        (
            "CUDA_VISIBLE_DEVICES",
            "its entry '9' names no GPU, so it and all after it are ignored",
            LIST,
        ),
        on_v100(),
        machine=gpus(visible_devices="0, 9,1", gpus=(v100(0),)),
    ),
    Case(
        "visible-devices",
        ("CUDA_VISIBLE_DEVICES", "its entry 'x' names no GPU, so it and all after it are ignored", LIST),
        on_v100(),
        machine=gpus(visible_devices="x,0", gpus=()),
    ),
    Case(
        "visible-devices",
        ("CUDA_VISIBLE_DEVICES", "it names '1' twice, and CUDA then shows no GPU at all", LIST),
        on_v100(),
        machine=gpus(visible_devices="0,1,1", gpus=()),
    ),
    Case(
        "visible-devices",
        ("CUDA_VISIBLE_DEVICES", "its entry '7' names no GPU, so it and all after it are ignored", LIST),
        on_v100(),
        machine=gpus(visible_devices="0,7,7", gpus=(v100(0),)),
    ),
    Case(
        "visible-devices",
        ("CUDA_VISIBLE_DEVICES", "'GPU-' is a part of a UUID, which CUDA takes and vLLM does not find", "write GPU-0"),
        on_v100(),
        machine=gpus(visible_devices="GPU-", gpus=(v100(0),)),
    ),
    Case("visible-devices", None, on_v100(), machine=gpus(visible_devices="0,GPU-1,2,3")),
    Case("visible-devices", None, on_v100(), machine=gpus()),
    Case("visible-devices", None, on_v100(), machine=gpus(visible_devices="", gpus=())),
    Case("visible-devices", None, config(), machine=gpus(visible_devices="9", gpus=())),
    Case("visible-devices", None, on_v100(), machine=gpus(visible_devices="9", gpus=(), unread={"gpus": "lost"})),
    Case(
        "device-order",
        (
            "CUDA_DEVICE_ORDER",
            "the cards differ, and CUDA numbers them by speed, not as nvidia-smi does",
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID in the shell",
        ),
        on_v100(),
        machine=gpus(gpus=MIXED, device_order="FASTEST_FIRST"),
    ),
    Case("device-order", None, on_v100(), machine=gpus(gpus=MIXED, device_order="PCI_BUS_ID")),
    Case("device-order", None, on_v100(), machine=gpus()),
    Case("device-order", None, on_v100(), machine=gpus(gpus=())),
    Case("device-order", None, config(), machine=gpus(gpus=MIXED)),
    Case(
        "gpus-differ",
        (
            "CUDA_VISIBLE_DEVICES",
            (
                "the ranks' cards differ: Tesla V100-PCIE-16GB (15.8 GiB) and Tesla V100-SXM2-32GB (31.7 GiB); the "
                "smallest and slowest decides for all"
            ),
            "choose cards of one kind with CUDA_VISIBLE_DEVICES",
        ),
        on_v100(**TWO),
        machine=gpus(gpus=MIXED),
    ),
    Case("gpus-differ", None, on_v100(limits__tensor_parallel=1), machine=gpus(gpus=MIXED)),
    Case("gpus-differ", None, on_v100(), machine=gpus()),
    Case("gpus-differ", None, on_v100(), machine=gpus(gpus=())),
    Case("gpus-differ", None, config(**TWO), machine=gpus(gpus=MIXED)),
    *(
        Case(
            "gpu-memory-taken",
            (
                "GPU 1",
                f"{asked} GiB are asked for, and of the {free} GiB that are free {TAKES} {begun} GiB before it looks",
                f"end what holds it{f', or set {SHARE_OPTION}={fits}' if fits else ''}",
            ),
            on_v100(limits__gpu_memory_utilization=share, **TWO),
            facts,
            machine=gpus(gpus=(v100(0, free_bytes=34072428544), v100(1, free_bytes=held), v100(2, free_bytes=0))),
        )
        for asked, free, begun, share, held, fits, facts in (
            ("28.56", "28.15", "0.48", 0.9, int(28.15 * 2**30), "0.87", FACTS),
            ("28.56", "29.04", "0.48", 0.9, SHARE + BEGUN - 1, "0.89", FACTS),
            (
                "28.56",
                "28.87",
                "0.31",
                0.9,
                SHARE + CONTEXT - 1,
                "0.89",
                SHAPELESS,
            ),
            ("3.17", "0.80", "0.48", 0.1, BEGUN + 340724286, "0.01", FACTS),
            ("3.17", "0.80", "0.48", 0.1, BEGUN + 340724285, "", FACTS),
            ("28.56", "0.00", "0.48", 0.9, 0, "", FACTS),
        )
    ),
    *(
        Case(
            "gpu-memory-taken",
            None,
            made,
            facts,
            machine=gpus(gpus=(v100(0, free_bytes=free), v100(1, free_bytes=free))),
        )
        for made, free, facts in (
            (on_v100(**TWO), SHARE + BEGUN, FACTS),
            (on_v100(**TWO), SHARE + CONTEXT, SHAPELESS),
            (on_v100(limits__gpu_memory_utilization=0.85, **TWO), int(28.15 * 2**30), FACTS),
            (config(**TWO), 0, FACTS),
            *(
                (on_v100(limits__gpu_memory_utilization=float(share), **TWO), 0, FACTS)
                for share in ("1.5", "inf", "-inf", "nan")
            ),
        )
    ),
    Case(
        "gpu-memory-taken",
        (
            "GPU 0",
            f"31.73 GiB are asked for, and of the 31.73 GiB that are free {TAKES} 0.31 GiB before it looks",
            f"end what holds it, or set {SHARE_OPTION}=0.99",
        ),
        on_v100(limits__gpu_memory_utilization=1.0, limits__tensor_parallel=1),
        machine=gpus(gpus=(v100(0, free_bytes=34072428544),)),
    ),
    *(
        Case(
            "gpu-memory-taken",
            None if fits else ("GPU 0", f"{asked} GiB are asked for, and of the {free} GiB {TAKES_OF} it looks", ENDS),
            on_v100(limits__gpu_memory_utilization=0.96, limits__tensor_parallel=1),
            machine=gpus(gpus=(v100(memory_bytes=NVML, reserved_bytes=reserved, free_bytes=CONTEXT + left),)),
        )
        for reserved, asked, free, left, fits in (
            (NVML - V100, "30.46", "30.77", -(-V100 * 96 // 100), True),
            (NVML - V100, "30.46", "30.77", -(-V100 * 96 // 100) - 1, False),
            (None, "30.11", "30.42", 32325641857, True),
            (None, "30.11", "30.42", 32325641856, False),
        )
    ),
    Case("gpu-memory-taken", None, on_v100(), machine=gpus(gpus=())),
    *(
        Case(
            "hardware-differs",
            (
                "hardware",
                f"the profile has GPUs of {profile / 2**30:.1f} GiB, and these have 15.8 GiB",
                "choose the profile of this machine; conf/hardware lists them",
            ),
            on_v100(hardware__gpu_memory_bytes=profile, **TWO),
            machine=gpus(gpus=MIXED),
        )
        for profile in (34072428544, 12 * 10**9, 1)
    ),
    *(
        Case(
            "hardware-differs",
            (
                "hardware",
                "the profile has NVLink, and no two of these GPUs are linked by it",
                "choose a profile with hardware.interconnect=pcie",
            ),
            on_v100(limits__tensor_parallel=ranks, hardware__gpu_memory_bytes=V100, hardware__interconnect="nvlink"),
            machine=gpus(links=cases.links(4, "switch")),
        )
        for ranks in (2, 4)
    ),
    *(
        Case("hardware-differs", None, made, machine=facts)
        for made, facts in (
            (on_v100(hardware__gpu_memory_bytes=V100, hardware__interconnect="nvlink"), gpus()),
            (on_v100(hardware__gpu_memory_bytes=V100, hardware__interconnect="nvlink"), gpus(links=())),
            (on_v100(hardware__gpu_memory_bytes=V100, hardware__interconnect="nvlink"), gpus(links=None)),
            (
                on_v100(hardware__gpu_memory_bytes=V100, hardware__interconnect="nvlink", **TWO),
                gpus(links=(Link(0, 1, "nvlink", True), Link(0, 2, "switch", True))),
            ),
            (
                on_v100(hardware__gpu_memory_bytes=V100, hardware__interconnect="nvlink", **TWO),
                gpus(links=(Link(0, 2, "switch", True), Link(2, 3, "switch", True))),
            ),
            (
                on_v100(hardware__gpu_memory_bytes=V100, hardware__interconnect="pcie"),
                gpus(links=cases.links(4, "switch")),
            ),
            (on_v100(hardware__gpu_memory_bytes=V100 * 100 // 98), gpus()),
            (on_v100(hardware__gpu_memory_bytes=V100 * 100 // 102), gpus()),
            (on_v100(hardware__gpu_memory_bytes=0, hardware__interconnect="nvlink"), gpus(links=cases.links(4, "x"))),
            (on_v100(hardware__gpu_memory_bytes=100, **TWO), gpus(gpus=(v100(0, memory_bytes=97),))),
            (on_v100(hardware__gpu_memory_bytes=1), gpus(gpus=())),
            (config(hardware__gpu_memory_bytes=1), gpus()),
        )
    ),
    *(
        Case(
            "peer-access-missing",
            apart(0, 1),
            on_v100(**TWO, **changes),
            machine=gpus(gpus=(v100(0), v100(1)), links=cases.links(2, "host-bridge", False)),
        )
        for changes in ({}, CURED, NO_CUSTOM, {**NO_CUSTOM, "engine__environment": {"NCCL_P2P_DISABLE": "0"}})
    ),
    Case(
        "peer-access-missing",
        apart(0, 1, "system"),
        on_v100(**TWO),
        machine=gpus(links=cases.links(4, "system", False)),
    ),
    *(
        Case("peer-access-missing", None, made, machine=gpus(links=cases.links(4, "system", False)))
        for made in (config(**TWO), on_v100(limits__tensor_parallel=1), on_v100(**CURED, **NO_CUSTOM))
    ),
    Case("peer-access-missing", None, on_v100(), machine=gpus()),
    Case("peer-access-missing", None, on_v100(limits__tensor_parallel=1), machine=gpus(links=None)),
    waits(
        "peer-access-missing",
        "GPUs",
        "it is not known which GPUs reach each other",
        on_v100(**TWO),
        fix="run nvidia-smi topo -p2p r",
        machine=gpus(links=None),
    ),
    Case(
        "over-nodes",
        ("GPUs", "the ranks' GPUs hang on 2 memory nodes: 0, 1", ""),
        on_v100(**TWO),
        machine=gpus(gpus=(v100(0, numa_node=1), v100(1, numa_node=0))),
    ),
    *(
        Case("over-nodes", None, made, machine=gpus(gpus=(v100(0, numa_node=0), v100(1, numa_node=second), v100(2))))
        for made, second in ((config(**TWO), 1), (on_v100(), 0), (on_v100(limits__tensor_parallel=1), 1))
    ),
    Case("over-nodes", None, on_v100(), machine=gpus()),
    Case(
        "shared-memory-small",
        (
            "/dev/shm",
            "1,023 MiB are free, and ranks that talk through it want 1 GiB",
            "start the container with --ipc=host or --shm-size=8g",
        ),
        on_v100(**TWO),
        machine=gpus(shared_memory_bytes=2**30 - 1),
    ),
    Case("shared-memory-small", None, on_v100(**TWO), machine=gpus(shared_memory_bytes=2**30)),
    Case("shared-memory-small", None, on_v100(limits__tensor_parallel=1), machine=gpus(shared_memory_bytes=0)),
    Case("shared-memory-small", None, config(**TWO), machine=gpus(shared_memory_bytes=0)),
    waits(
        "shared-memory-small",
        "/dev/shm",
        "the size of /dev/shm could not be read",
        on_v100(**TWO),
        machine=gpus(shared_memory_bytes=None),
    ),
    Case(
        "orphaned-engine",
        (
            "process 77",
            "'VLLM::EngineCore' lives on without its server and holds 2.0 GiB of GPU memory",
            "end it: kill 77",
        ),
        config(),
        machine=gpus(processes=process(orphaned=True, gpu_bytes=2**31)),
    ),
    Case(
        "orphaned-engine",
        ("process 77", "'VLLM::EngineCore' lives on without its server", "end it: kill 77"),
        on_v100(),
        machine=gpus(processes=process(orphaned=True)),
    ),
    Case("orphaned-engine", None, on_v100(), machine=gpus(processes=process(gpu_bytes=2**31))),
    Case("orphaned-engine", None, on_v100(), machine=gpus()),
    waits(
        "orphaned-engine",
        "processes",
        "the machine's processes could not be read",
        on_v100(),
        machine=gpus(processes=None),
    ),
    *(
        Case(
            "replaced-libraries",
            (
                "process 77",
                f"'VLLM::EngineCore' runs with a library that is not on disk any more: /a.so{more}",
                "start that server again",
            ),
            config(),
            machine=gpus(processes=process(replaced=replaced)),
        )
        for replaced, more in ((("/a.so",), ""), (("/a.so", "/b.so"), " and 1 more"))
    ),
    Case("replaced-libraries", None, config(), machine=gpus(processes=process())),
    Case("replaced-libraries", None, config(), machine=gpus(processes=None)),
]
SEVERITIES = {
    "driver-before-cuda": Severity.warn,
    "driver-without-volta": Severity.warn,
    "driver-library-differs": Severity.warn,
    "device-order": Severity.warn,
    "gpus-differ": Severity.warn,
    "hardware-differs": Severity.warn,
    "peer-access-missing": Severity.warn,
    "over-nodes": Severity.info,
    "shared-memory-small": Severity.warn,
    "orphaned-engine": Severity.warn,
    "replaced-libraries": Severity.warn,
}
