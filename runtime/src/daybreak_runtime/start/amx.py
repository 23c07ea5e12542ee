"""Permission to use AMX, the matrix unit of newer Intel processors.

Linux gives a process the unit's registers after one request, for all its threads and forked processes
(`Documentation/arch/x86/xstate.rst` of Linux). vLLM's attention on CPUs uses AMX if the processor has it. It
leaves the request to oneDNN, which makes it only if it uses AMX itself. For some models and batch sizes it
does not: then vLLM's worker ends with an illegal instruction at the first request.
"""

import ctypes
import platform
import sys

_ARCH_PRCTL = 158
"""Number of the system call on x86-64."""
_GET_SUPPORTED, _GET_PERMITTED, _REQUEST = 0x1021, 0x1022, 0x1023
_TILE_DATA = 18
"""Number of the unit's registers among the states of a processor."""


def request() -> None:
    """Request the permission if the processor has AMX.

    vLLM calls this in each of its processes, as a plugin.
    """
    if _available() and not permitted():
        _arch_prctl(_REQUEST, ctypes.c_ulong(_TILE_DATA))


def supported() -> bool:
    """Return True if the processor has AMX and the kernel supports it."""
    return _available() and _states(_GET_SUPPORTED)


def permitted() -> bool:
    """Return True if this process may use AMX."""
    return _available() and _states(_GET_PERMITTED)


def _available() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _states(which: int) -> bool:
    states = ctypes.c_uint64(0)
    answer = _arch_prctl(which, ctypes.byref(states))
    return answer == 0 and bool(states.value >> _TILE_DATA & 1)


def _arch_prctl(which: int, argument: object) -> int:
    return int(ctypes.CDLL(None).syscall(_ARCH_PRCTL, which, argument))
