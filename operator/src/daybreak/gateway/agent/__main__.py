"""`python -m daybreak.gateway.agent`: the agent of one gateway, as its keeper starts it."""

import asyncio
import signal
import sys
from dataclasses import replace

from daybreak import logs
from daybreak.gateway.agent.agent import Agent
from daybreak.gateway.agent.beats import Heartbeat
from daybreak.gateway.agent.server import AgentServer
from daybreak.gateway.agent.settings import Settings
from daybreak.gateway.environment import InvalidSettings
from daybreak.gateway.supervisor.control import control_socket
from daybreak.kube.client import Api


async def run(settings: Settings) -> int:
    """Run until SIGTERM and the end of all requests, or until a part fails. Returns the exit status."""
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    if settings.draining_since is not None:
        ending.set()
    beats = Heartbeat(control_socket(settings.folder), settings.watchdog)
    if not await beats.begin(ending):
        return 0
    _, limit = beats.memory
    api = await Api.connect()
    agent = Agent(replace(settings, memory=limit or settings.memory), api, beats)
    server = AgentServer(agent, settings.http_port, settings.token_file)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.drain)
    if ending.is_set():
        agent.drain()
    try:
        await server.start()
        return await agent.run()
    finally:
        await server.stop()
        await api.close()


def main() -> int:
    """Run the program. Returns its exit status."""
    try:
        settings = Settings.from_environment()
    except InvalidSettings as error:
        print(f"daybreak.gateway: {error}", file=sys.stderr)
        return 2
    logs.configure(settings.log_level)
    return asyncio.run(run(settings))


if __name__ == "__main__":
    sys.exit(main())
