"""A slow start is told from one that hangs."""

from hypothesis import given
from hypothesis import strategies as st

from toolkit.engine.progress import WORK_LIMIT, Progress, Usage


def test_without_anything_it_expires_after_the_timeout():
    progress = Progress(10.0, 100.0)
    assert not progress.expired(109.9)
    assert progress.expired(110.0)


def test_new_log_lines_extend_it():
    progress = Progress(10.0, 0.0)
    progress.logged(["loading shard 1"], 9.0)
    progress.logged(["loading shard 2"], 18.0)
    assert not progress.expired(27.9)
    assert progress.expired(28.0)


def test_a_line_that_repeats_but_for_the_time_of_day_does_not():
    progress = Progress(10.0, 0.0)
    progress.logged(["WARNING 11-29 13:57:14 no available block found in 60 seconds"], 5.0)
    progress.logged(["WARNING 11-29 13:58:14 no available block found in 60 seconds"], 14.0)
    assert progress.expired(15.0)


def test_work_extends_it_and_idling_does_not():
    progress = Progress(10.0, 0.0)
    progress.used(Usage(5.0, 0), 5.0)
    assert progress.stalled_for(5.0) == 0
    progress.used(Usage(5.1, 0), 9.0)  # a fortieth of a core
    assert progress.stalled_for(9.0) == 4.0


def test_reading_extends_it():
    progress = Progress(10.0, 0.0)
    progress.used(Usage(0.0, 50 << 20), 5.0)
    assert progress.stalled_for(5.0) == 0
    progress.used(Usage(0.0, (50 << 20) + 4096), 9.0)
    assert progress.stalled_for(9.0) == 4.0


def test_an_endless_loop_expires_too():
    progress = Progress(1.0, 0.0)
    expired = next(
        second for second in range(1, 100) if (progress.used(Usage(second, 0), second), progress.expired(second))[1]
    )
    assert expired == WORK_LIMIT


def test_a_log_line_gives_work_its_time_again():
    progress = Progress(1.0, 0.0)
    progress.logged(["compiling"], 9.0)
    progress.used(Usage(12.0, 0), 12.0)
    assert progress.stalled_for(12.0) == 0


@given(st.lists(st.tuples(st.floats(0.01, 5.0), st.booleans()), max_size=50))
def test_it_never_expires_within_the_timeout_of_the_last_progress(steps):
    progress, now, last = Progress(3.0, 0.0), 0.0, 0.0
    for number, (pause, speaks) in enumerate(steps):
        now += pause
        if speaks:
            progress.logged([f"line {number}"], now)
            last = now
        assert progress.expired(now) == (now - last >= 3.0)
