"""Our gateway's HAProxy with the configuration that it has in a cluster, open for one service.

    python -m bench.gpu.gateway --port 20000 --server 127.0.0.1:8000 --model llama --folder FOLDER

`--server` may be given several times, for replicas that serve at ports of their own.

In a cluster an agent tells it of services and pods; here it is told once.
"""

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Sequence
from pathlib import Path

from daybreak.gateway.config import GatewayConfig
from daybreak.gateway.process import Gateway
from daybreak.gateway.servers import Server
from daybreak.gateway.table import Gate, Service

_SLOTS = 16  # within the ports that are set apart in Ports


async def run(port: int, servers: Sequence[str], model: str, folder: Path, limit: int) -> None:
    """Serve until told to end."""
    config = GatewayConfig(folder=folder, address="127.0.0.1", first_port=port, slots=_SLOTS)
    gateway = Gateway(config)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await gateway.start()
    try:
        await gateway.told_all()
        await gateway.set_servers(0, [_server(server, limit) for server in servers])
        await gateway.set_service(0, Service(name="gpu-check", gate=Gate.OPEN, epoch=1, models=(model,)))
        await ended.wait()
    finally:
        await gateway.kill()


def _server(address: str, limit: int) -> Server:
    host, _, port = address.rpartition(":")
    return Server(host, int(port), max_connections=limit)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Our gateway before servers of one service.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--server", dest="servers", action="append", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--limit", type=int, default=0, help="requests that a server gets at a time")
    parser.add_argument("--folder", type=Path, required=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
