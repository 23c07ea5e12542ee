"""`python -m daybreak.gateway haproxy|agent`: the first program of one of a gateway pod's two containers."""

import asyncio
import os
import signal
import sys

from daybreak import logs
from daybreak.gateway.environment import Environment, InvalidSettings
from daybreak.gateway.supervisor.agent_keeper import AgentKeeper
from daybreak.gateway.supervisor.supervisor import Supervised, Supervisor

PROGRAMS = ("haproxy", "agent")
UMASK = 0o007
"""Both containers have users of their own, and a group in common: it may read and write what they share."""


async def run(program: AgentKeeper | Supervisor) -> int:
    """Run until SIGTERM and everybody has finished, or until it fails. Returns the exit status."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, program.drain)
    return await program.run()


def main() -> int:
    """The program. Returns its exit status."""
    if len(sys.argv) != 2 or sys.argv[1] not in PROGRAMS:
        print(f"daybreak.gateway: say which program: {' or '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    try:
        env = Environment()
        level, supervised = env.log_level, Supervised.from_environment(env)
    except InvalidSettings as error:
        print(f"daybreak.gateway: {error}", file=sys.stderr)
        return 2
    os.umask(UMASK)
    logs.configure(level)
    return asyncio.run(run(AgentKeeper() if sys.argv[1] == "agent" else Supervisor(supervised)))


if __name__ == "__main__":
    sys.exit(main())
