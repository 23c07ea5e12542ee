"""Permission to use AMX, the matrix unit of newer Intel processors.

Linux gives a process the unit's registers when it has asked for them, once, for all its threads and what is
forked from it (`Documentation/arch/x86/xstate.rst` of Linux). vLLM's attention on CPUs uses AMX wherever the
processor has it, and leaves the asking to oneDNN, which asks only where it uses AMX itself. For some models
and sizes of batches it does not: then vLLM's worker ends with an illegal instruction at the first request.
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
    """Ask for it, where the processor has it.

    vLLM calls this in each of its processes, as a plugin.
    """
    if _available() and not permitted():
        _arch_prctl(_REQUEST, ctypes.c_ulong(_TILE_DATA))


def supported() -> bool:
    """Whether the processor has it, and the kernel lends it."""
    return _available() and _states(_GET_SUPPORTED)


def permitted() -> bool:
    """Whether this process may use it."""
    return _available() and _states(_GET_PERMITTED)


def _available() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _states(which: int) -> bool:
    states = ctypes.c_uint64(0)
    answer = _arch_prctl(which, ctypes.byref(states))
    return answer == 0 and bool(states.value >> _TILE_DATA & 1)


def _arch_prctl(which: int, argument: object) -> int:
    return int(ctypes.CDLL(None).syscall(_ARCH_PRCTL, which, argument))
