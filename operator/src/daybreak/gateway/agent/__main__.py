"""`python -m daybreak.gateway.agent`: one gateway's agent, as the supervisor starts it."""

import asyncio
import signal
import sys

from daybreak import logs
from daybreak.gateway.agent.agent import Agent
from daybreak.gateway.agent.server import AgentServer
from daybreak.gateway.agent.settings import Settings
from daybreak.gateway.environment import InvalidSettings
from daybreak.kube.client import Api


async def run(settings: Settings) -> int:
    """Run until SIGTERM and everybody has finished, or until a part fails. Returns the exit status."""
    api = await Api.connect()
    agent = Agent(settings, api)
    server = AgentServer(agent, settings.http_port, settings.token_file)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.drain)
    try:
        await server.start()
        return await agent.run()
    finally:
        await server.stop()
        await api.close()


def main() -> int:
    """The program. Returns its exit status."""
    try:
        settings = Settings.from_environment()
    except InvalidSettings as error:
        print(f"daybreak.gateway: {error}", file=sys.stderr)
        return 2
    logs.configure(settings.log_level)
    return asyncio.run(run(settings))


if __name__ == "__main__":
    sys.exit(main())
