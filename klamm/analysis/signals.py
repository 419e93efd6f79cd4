"""The signals that end a job of `klamm pipeline` which goes on for ever."""

import signal
import threading


def stopped_by_signals() -> threading.Event:
    """An event that SIGINT or SIGTERM sets; a second signal raises KeyboardInterrupt."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop
