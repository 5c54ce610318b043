"""A signal that stops one job of a sweep stops the sweep."""

import sys

import pytest

from toolkit import verb
from toolkit.config.schema.verbs import PlanConfig


@pytest.mark.parametrize("code", [129, 130, 143])
def test_a_job_stopped_by_a_signal_is_the_last(monkeypatch, code):
    monkeypatch.setattr(sys, "argv", ["toolkit-plan", "-m", "limits.max_num_seqs=1,2,3"])
    seen = []

    def task(composed) -> int:
        seen.append(composed.config.limits.max_num_seqs)
        return 3 if len(seen) == 1 else code

    assert verb.run_verb("plan", PlanConfig, task) == code
    assert seen == [1, 2]
