"""When a worker reports again."""

from __future__ import annotations

import logging

from toolkit.plugin.reporting import Reporting


class Written(list):
    """What was written: requests, and whether the worker ended."""

    fails = False

    def __call__(self, requests, ended):
        if self.fails:
            raise RuntimeError("the device is lost")
        self.append((requests, ended))


def test_it_reports_when_warm_after_the_first_request_at_each_doubling_and_at_the_end():
    written = Written()
    reporting = Reporting(written)
    for _ in range(9):
        reporting.finished(1, idle=True)
    reporting.end()
    assert written == [(0, False), (1, False), (2, False), (4, False), (8, False), (9, True)]


def test_no_request_in_work_waits_for_a_report_after_the_first():
    written = Written()
    reporting = Reporting(written)
    for _ in range(9):
        reporting.finished(1, idle=False)
    reporting.finished(1, idle=True)
    assert written == [(0, False), (1, False), (10, False)]


def test_several_requests_may_end_in_one_step():
    written = Written()
    reporting = Reporting(written)
    reporting.finished(5, idle=False)
    reporting.finished(4, idle=True)
    reporting.finished(1, idle=True)
    assert written == [(0, False), (5, False), (10, False)]


def test_it_reports_at_rest_but_not_often():
    written, now = Written(), [0.0]
    reporting = Reporting(written, lambda: now[0])
    reporting.finished(2, idle=True)
    for now[0], idle in ((29.0, True), (31.0, False), (32.0, True), (61.0, True), (62.0, True)):
        reporting.finished(0, idle=idle)
    assert written == [(0, False), (2, False), (2, False), (2, False)]


def test_one_that_fails_is_an_error_in_the_log_with_its_traceback_and_the_worker_goes_on(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("vllm.volta"), "propagate", True)
    written = Written()
    written.fails = True
    with caplog.at_level(logging.WARNING, "vllm.volta"):
        reporting = Reporting(written)
        reporting.finished(1, idle=False)
        reporting.end()
    said = "The worker's report cannot be made: RuntimeError: the device is lost"
    assert [record.getMessage() for record in caplog.records] == [said] * 3
    assert all(record.exc_info for record in caplog.records)
    written.fails = False
    reporting.finished(1, idle=True)
    assert written == [(2, False)]
