"""`python -m daybreak.gateway haproxy|agent`: the first program of one of a gateway pod's two containers.

Both stay small next to the processes that do the work: they import only what they need, and only when they
need it.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from daybreak.gateway.environment import Environment, InvalidSettings

if TYPE_CHECKING:
    from daybreak.gateway.supervisor.supervisor import Supervisor

PROGRAMS = ("haproxy", "agent")
UMASK = 0o007
"""File mode mask. The containers have different users and a common group, which may read and write shared
files."""


SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Signals that make a program finish current requests and end."""


def program(name: str, env: Environment) -> Callable[[], int]:
    """Return the function that runs one of the programs.

    The function ends after a signal, once all requests have ended, or when the program fails.

    The function returns the exit status. Raises InvalidSettings.
    """
    from daybreak.gateway.supervisor import json_log

    json_log.configure(env.log_level)
    if name == "agent":
        from daybreak.gateway.supervisor.agent_keeper import AgentKeeper

        keeper = AgentKeeper()
        for number in SIGNALS:
            signal.signal(number, lambda *_: keeper.drain())
        return keeper.run
    # The program does not speak TLS, and asyncio works without it if Python has none: that saves 4 MiB.
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]  # the import system's word for "not there"
    import asyncio

    from daybreak.gateway.supervisor.supervisor import Supervised, Supervisor

    supervisor = Supervisor(Supervised.from_environment(env))
    return lambda: asyncio.run(_supervise(supervisor))


async def _supervise(supervisor: "Supervisor") -> int:
    import asyncio

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, supervisor.drain)
    return await supervisor.run()


def main() -> int:
    """Run the program. Returns its exit status."""
    if len(sys.argv) != 2 or sys.argv[1] not in PROGRAMS:
        print(f"daybreak.gateway: say which program: {' or '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    try:
        run = program(sys.argv[1], Environment())
    except InvalidSettings as error:
        print(f"daybreak.gateway: {error}", file=sys.stderr)
        return 2
    os.umask(UMASK)
    return run()


if __name__ == "__main__":
    sys.exit(main())
