"""The log is read while it grows."""

from toolkit.engine.log import TAIL_BYTES, LogFollower, read_end, tail


def test_only_complete_lines_and_each_once(tmp_path):
    path = tmp_path / "log"
    follower = LogFollower(path)
    assert follower.new_lines() == []
    with path.open("a") as log:
        log.write("one\ntw")
        log.flush()
        assert follower.new_lines() == ["one"]
        log.write("o\n\n")
        log.flush()
        assert follower.new_lines() == ["two"]
    assert follower.new_lines() == []


def test_a_progress_bars_redraws_are_lines(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"0%\r50%\r100%\ndone\n")
    assert LogFollower(path).new_lines() == ["0%", "50%", "100%", "done"]


def test_bytes_that_are_no_text_do_no_harm(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\xff\xfe ok\n")
    assert LogFollower(path).new_lines() == ["�� ok"]


def test_the_end_of_a_log(tmp_path):
    path = tmp_path / "log"
    assert tail(path, 40) == []
    path.write_text("".join(f"{number}\n" for number in range(100)))
    assert tail(path, 40) == [str(number) for number in range(60, 100)]
    path.write_text("x" * (TAIL_BYTES + 100))
    assert len(read_end(path)) == TAIL_BYTES
