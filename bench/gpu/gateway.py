"""Our gateway's HAProxy with the configuration that it has in a cluster, open for one service.

    python -m bench.gpu.gateway --port 20000 --server 127.0.0.1:8000 --model llama --folder FOLDER

In a cluster an agent tells it of services and pods; here it is told once.
"""

import argparse
import asyncio
import contextlib
import signal
from pathlib import Path

from daybreak.gateway.config import GatewayConfig
from daybreak.gateway.process import Gateway
from daybreak.gateway.servers import Server
from daybreak.gateway.table import Gate, Service

_SLOTS = 16  # within the ports that are set apart in Ports


async def run(port: int, server: str, model: str, folder: Path) -> None:
    """Serve until told to end."""
    config = GatewayConfig(folder=folder, address="127.0.0.1", first_port=port, slots=_SLOTS)
    gateway = Gateway(config)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await gateway.start()
    try:
        await gateway.told_all()
        host, _, server_port = server.rpartition(":")
        await gateway.set_servers(0, [Server(host, int(server_port))])
        service = Service(name="gpu-check", gate=Gate.OPEN, epoch=1, models=(model,), replicas_listen=True)
        await gateway.set_service(0, service)
        await ended.wait()
    finally:
        await gateway.kill()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Our gateway before one server.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
