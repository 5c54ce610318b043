"""Phases follow each other, and add up."""

from toolkit.runs.timings import Timings, process_age


def test_phases_add_up_to_the_whole():
    now = [0.0]
    timings = Timings(clock=lambda: now[0])
    for name, moment in (("a", 0.0), ("b", 1.0), ("a", 3.0)):
        now[0] = moment
        timings.begin(name)
    now[0] = 7.0
    timings.end()
    now[0] = 9.0
    timings.end()
    assert timings.seconds == {"a": 5.0, "b": 2.0}
    assert timings.total == 7.0


def test_the_age_of_this_process_grows():
    first = process_age()
    assert 0 < first <= process_age()
