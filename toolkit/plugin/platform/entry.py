"""Entry point `vllm.platform_plugins`: tells vLLM whose platform to take.

vLLM swallows what such a function raises, notes it at debug level, and starts its own CUDA platform. So a refusal is
returned as a class that cannot be created: that error ends the process, with our sentence as its last line. A fault
of the plugin itself is a refusal too where the platform was demanded, and a line in the log where it was not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from toolkit.planning import platform_demand
from toolkit.plugin.platform.decision import Decision, Found, Outcome, decide, is_supported, v100s_alone
from toolkit.plugin.platform.devices import visible_capabilities

logger = logging.getLogger("vllm.volta")

CLASSES = {
    Outcome.inactive: None,
    Outcome.active: "toolkit.plugin.platform.v100.V100Platform",
    Outcome.refused: "toolkit.plugin.platform.refused.RefusedPlatform",
}


def platform_class() -> str | None:
    """The path of the class that vLLM shall create, or None to leave vLLM as it is. Called twice in each process."""
    try:
        return CLASSES[decide_here(os.environ).outcome]
    except Exception as error:  # noqa: BLE001 - whatever it is, vLLM would not show it
        if os.environ.get(platform_demand.VARIABLE):
            return CLASSES[Outcome.refused]
        logger.error("The volta plugin failed and leaves vLLM as it is: %s: %s", type(error).__name__, error)
        return None


def decide_here(environment: Mapping[str, str]) -> Decision:
    """The decision for this process."""
    try:
        wanted = platform_demand.read(environment)
    except ValueError:
        known = ", ".join(repr(each.value) for each in platform_demand.Demand)
        return Decision(
            Outcome.refused, f"{platform_demand.VARIABLE}={environment[platform_demand.VARIABLE]!r} is none of {known}"
        )
    return decide(wanted, _found(environment, demanded=wanted is not platform_demand.Demand.none))


def _found(environment: Mapping[str, str], *, demanded: bool) -> Found:
    import torch
    import vllm

    refused_anyway = demanded and not is_supported(vllm.__version__)  # another release may not even list its GPUs
    capabilities = () if refused_anyway else visible_capabilities(environment)
    ours = bool(capabilities) and (demanded or v100s_alone(capabilities))  # elsewhere nothing of ours is imported
    return Found(
        capabilities=capabilities,
        vllm=vllm.__version__,
        torch=torch.__version__,
        torch_cuda=torch.version.cuda,
        torch_archs=(torch._C._cuda_getArchFlags() or "").split() if torch.version.cuda else (),
        library_error=_library_error() if ours else None,
    )


def _library_error() -> str | None:
    """Why our operators cannot be used, with the way out; the library that is found is loaded for it."""
    from toolkit.errors import ToolkitError
    from toolkit.native import library
    from toolkit.plugin.operators.define import changed_operators, missing_operators

    try:
        path = library.load()
    except ToolkitError as error:
        return f"{error.what}: {error.fix}"
    except (OSError, RuntimeError) as error:  # damaged, or its operators are others than this toolkit's
        said = str(error).partition("\n")[0]
        return f"the native library {library.find()} is not this toolkit's ({said}): invoke build"
    if missing := missing_operators():
        return f"the native library {path} is of another version, without {', '.join(missing)}: invoke build"
    if changed := changed_operators():
        return f"the native library {path} is of another version, with another {', '.join(changed)}: invoke build"
    return None
