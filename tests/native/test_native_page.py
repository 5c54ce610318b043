"""The lines of Python that docs/native.md shows."""

import re


def test_the_example_runs_as_it_is_shown(root, volta):
    import torch

    page = (root / "docs/native.md").read_text(encoding="utf-8")
    shown = re.search(r"(?:^    .*\n)+", page, re.MULTILINE).group()
    x = torch.tensor([[3.0, 4.0]])
    names = {"torch": torch, "x": x, "weight": torch.ones(2), "result": torch.empty(1, 2)}
    exec("\n".join(line.removeprefix("    ") for line in shown.splitlines()), names)
    assert torch.allclose(names["result"], x / x.square().mean().sqrt())
