import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def pytest_collection_modifyitems(items):
    """Everything here needs a GPU; say so once, with the reason, where there is none."""
    reason = _why_not()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


def _why_not():
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "torch sees no NVIDIA GPU"
    from toolkit.errors import CheckFailedError
    from toolkit.native import library

    try:
        library.find()
    except CheckFailedError as error:
        return error.what
    return None


@pytest.fixture(scope="session")
def volta():
    import torch

    from toolkit.native import load

    load()
    return torch.ops.volta
