"""Probes that fail, hang or succeed, side by side."""

import threading

from toolkit.machine.guard import CannotReadError, Reading, read_all


def fail(error):
    def probe():
        raise error

    return probe


def test_every_probe_answers_for_itself():
    readings = read_all(
        {
            "good": lambda: 7,
            "empty": lambda: None,
            "known": fail(CannotReadError("the driver sleeps")),
            "strange": fail(KeyError("x")),
            "denied": fail(PermissionError(13, "Permission denied")),
        }
    )
    assert readings == {
        "good": Reading(7),
        "empty": Reading(None),
        "known": Reading(reason="the driver sleeps"),
        "strange": Reading(reason="KeyError: 'x'"),
        "denied": Reading(reason="PermissionError: [Errno 13] Permission denied"),
    }
    assert list(readings) == ["good", "empty", "known", "strange", "denied"]


def test_one_that_hangs_is_left_behind():
    release = threading.Event()
    readings = read_all({"hangs": release.wait, "good": lambda: 1}, deadline_s=0.05)
    assert readings == {"hangs": Reading(reason="no answer within 0.05 s"), "good": Reading(1)}
    release.set()
    assert readings["hangs"].value is None


def test_probes_that_wait_do_so_at_the_same_time():
    together = threading.Barrier(3, timeout=5)
    readings = read_all(dict.fromkeys("abc", together.wait))
    assert sorted(reading.value for reading in readings.values()) == [0, 1, 2]


def test_nothing_to_read():
    assert read_all({}) == {}
