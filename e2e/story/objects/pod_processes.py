"""Processes of pods, signaled from the node, which is this machine.

A signal from the node arrives immediately. `kubectl exec` needs seconds on a busy machine, and the operation
to interrupt may have ended by then.
"""

from collections.abc import Callable
from contextlib import suppress

import psutil


def find(title: str) -> list[psutil.Process]:
    """Return the processes whose command line contains a text, such as the title that Ray gives an actor."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if title in " ".join(process.cmdline()):
                processes.append(process)
    return processes


def pause(title: str) -> int:
    """Stop the matching processes until they are killed or continued, and return their number."""
    return _signal(title, psutil.Process.suspend)


def resume(title: str) -> int:
    """Continue the matching paused processes, and return their number."""
    return _signal(title, psutil.Process.resume)


def kill(title: str) -> int:
    """Kill the matching processes, including paused ones, and return their number."""
    return _signal(title, psutil.Process.kill)


def _signal(title: str, send: Callable[[psutil.Process], None]) -> int:
    count = 0
    for process in find(title):
        with suppress(psutil.NoSuchProcess):
            send(process)
            count += 1
    return count
