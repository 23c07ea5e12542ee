"""Lua memory that a gateway uses for an idle service: there may be a thousand."""

from pathlib import Path

from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway, own_backend
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.ports import free_ports

SERVICES = 50
MOST = 4500
"""Bytes of Lua for one."""


async def test_idle_service_uses_few_kilobytes_of_lua_memory(tmp_path: Path) -> None:
    first = free_ports(SERVICES)
    gateway = Gateway(GatewayConfig(tmp_path / "gw", "127.0.0.1", first_port=first, slots=SERVICES))
    await gateway.start()
    try:
        empty = await _lua_bytes(gateway)
        for slot in range(SERVICES):
            service = Slot(f"service-{slot:04}", Gate.OPEN, 1, model="qwen", uid="u" * 36, models=("qwen",))
            await gateway.set_gate(own_backend(slot), service)
            await gateway.set_servers(own_backend(slot), [Server("127.0.0.1", first, cluster="c")])
        assert len((await gateway.snapshot()).slots) == SERVICES
        assert (await _lua_bytes(gateway) - empty) / SERVICES < MOST
    finally:
        await gateway.kill()


async def _lua_bytes(gateway: Gateway) -> int:
    for _ in range(2):  # what has a finalizer goes with the second collection
        found = await gateway._api.json("daybreak memory")
    return int(found["lua_bytes"])
