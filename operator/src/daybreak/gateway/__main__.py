"""`python -m daybreak.gateway`: one gateway pod, from its supervisor on."""

import asyncio
import signal
import sys

from daybreak import logs
from daybreak.gateway.environment import Environment, InvalidSettings
from daybreak.gateway.supervisor.supervisor import Supervised, Supervisor


async def run(supervised: Supervised) -> int:
    """Run until SIGTERM and everybody has finished, or until a HAProxy ends. Returns the exit status."""
    supervisor = Supervisor(supervised)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.drain)
    return await supervisor.run()


def main() -> int:
    """The program. Returns its exit status."""
    try:
        env = Environment()
        level, supervised = env.log_level, Supervised.from_environment(env)
    except InvalidSettings as error:
        print(f"daybreak.gateway: {error}", file=sys.stderr)
        return 2
    logs.configure(level)
    return asyncio.run(run(supervised))


if __name__ == "__main__":
    sys.exit(main())
