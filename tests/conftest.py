"""The whole suite's beginning."""

import signal


def pytest_configure():
    """Hear the signals that tests send: a shell's background job starts with both ignored, and so do its children."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
