"""A doctor's look at this machine fills every fact that it says it looks at, or says why not."""

from dataclasses import fields

import pytest

from toolkit.config.schema.verbs import DoctorConfig
from toolkit.doctor import facts_of
from toolkit.machine.facts import MachineFacts

NONE_IS_AN_ANSWER = {"driver", "driver_library", "docker", "visible_devices", "device_order"}
"""Facts of which there may be none on a healthy machine."""
OF_A_DEPLOYMENT = {"interpreter"}
"""Facts that plan and serve ask for, with what the deployment puts before the interpreter's own folders."""


@pytest.fixture(scope="module")
def facts():
    return facts_of(DoctorConfig())


@pytest.mark.parametrize(
    "name", sorted({field.name for field in fields(MachineFacts)} - NONE_IS_AN_ANSWER - OF_A_DEPLOYMENT)
)
def test_each_fact_is_there_or_has_a_reason(facts, name):
    assert getattr(facts, name) is not None or facts.unread.get(name)
