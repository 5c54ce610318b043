"""Imports every module of the serving packages, and answers for signatures and fields; JSON from a file to a file."""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sm70.recorder import Recorder

Recorder().install()  # vLLM's kernels are defined only where Triton has a driver

import torch  # noqa: E402

torch.cuda.get_device_name = lambda *_: "Tesla V100-SXM2-32GB"
torch.cuda.get_device_capability = lambda *_: (7, 0)

from vllm.platforms import current_platform  # noqa: E402, F401 - defines the operators before anything is imported

wanted = json.loads(Path(sys.argv[1]).read_text())


def modules(package):
    """The names below a package; its own subpackages are imported on the way."""
    found = importlib.import_module(package)
    yield package
    for each in pkgutil.walk_packages(found.__path__, f"{package}.", onerror=lambda _name: None):
        yield each.name


def resolved(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


imports = {}
for name in (*(name for package in wanted["packages"] for name in modules(package)), *wanted["modules"]):
    try:
        importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - why it does not import is the result
        imports[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    else:
        imports[name] = ""
contract = {
    "signatures": [list(inspect.signature(resolved(*place)).parameters) for place in wanted["signatures"]],
    "fields": [sorted(each.name for each in dataclasses.fields(resolved(*place))) for place in wanted["fields"]],
}
vllms = [(name, str(getattr(module, "__file__", ""))) for name, module in list(sys.modules.items())]
loaded = sorted(name for name, file in vllms if name.startswith("vllm.") and file.endswith(".so"))
Path(sys.argv[2]).write_text(json.dumps({"imports": imports, "loaded": loaded, **contract}, indent=1))
