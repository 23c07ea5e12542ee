"""A batch without progress ends; one with progress continues."""

import threading
import time

from daybreak_runtime.batch.watch import Watch


def test_watch_calls_end_after_timeout_without_progress() -> None:
    ended = threading.Event()
    watch = Watch(0.2, ended.set)
    for _ in range(6):
        time.sleep(0.05)
        watch.touch()
    touched = time.monotonic()
    assert ended.wait(30)
    assert time.monotonic() - touched >= 0.2


def test_closed_watch_does_not_call_end() -> None:
    ended = threading.Event()
    Watch(0.1, ended.set).close()
    assert not ended.wait(0.4)
