"""A process that starts others by the standby server; run by test_standby.py.

    python standby_parent.py WHAT

Prints what was seen as JSON, or the process ids of a parent and its child that both wait.
"""

import json
import os
import sys
import time
from multiprocessing.connection import Connection

from daybreak_runtime.ahead import standby

AHEAD = "tests.unit.runtime.standby_ahead"


def look(writer: Connection, deeper: bool) -> None:
    """Send what a started process is like, and what one is like that it starts itself."""
    observed = {
        "ahead": AHEAD in sys.modules,
        "marked": os.environ.get("MARK"),
        "server": os.getppid(),
        "below": _started(deeper=False) if deeper else None,
    }
    writer.send(observed)


def wait(writer: Connection) -> None:
    """Send the process id, and wait for ever."""
    writer.send(os.getpid())
    time.sleep(600)


def _started(*, deeper: bool) -> object:
    context = standby.Context()
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=look, args=(writer, deeper), name="look")
    process.start()
    writer.close()
    observed = reader.recv()
    process.join()
    assert process.exitcode == 0
    return observed


def main(what: str) -> None:
    """Start what is wanted."""
    standby.start(AHEAD)
    if what == "orphan":
        context = standby.Context()
        reader, writer = context.Pipe(duplex=False)
        context.Process(target=wait, args=(writer,)).start()
        print(reader.recv(), flush=True)
        time.sleep(600)
    if what == "stopped":
        standby.stop()
    os.environ["MARK"] = "set later"
    if what == "threads":
        os.environ["OMP_NUM_THREADS"] = "7"
    print(json.dumps(_started(deeper=what == "deeper")))


if __name__ == "__main__":
    main(sys.argv[1])
