"""Program that becomes another program, which ends when its parent ends for any reason.

    python -I child.py <the parent's process> <program> <argument>...

It replaces a preexec_fn, which may hang in a process with threads. It imports nothing of Daybreak, because it
runs isolated.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Request SIGKILL at the parent's end from the kernel, then become the program."""
    parent, program, *arguments = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):  # it ended before the request
        sys.exit(1)
    os.execv(program, [program, *arguments])  # noqa: S606


if __name__ == "__main__":
    main()
