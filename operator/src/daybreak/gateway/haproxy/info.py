"""How many connections a HAProxy has, and whether its clients are to have few of them."""

from dataclasses import dataclass
from pathlib import Path

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError


@dataclass(frozen=True)
class Connections:
    """Connections of clients."""

    now: int
    limit: int


async def connections(api: RuntimeApi) -> Connections:
    """Ask HAProxy. Raises RuntimeApiError."""
    lines = (await api.command("show info")).splitlines()
    found = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        return Connections(now=int(found["CurrConns"]), limit=max(1, int(found["Maxconn"])))
    except (KeyError, ValueError) as error:
        raise RuntimeApiError(f"show info: {error}") from error


async def set_short(api: RuntimeApi, file: Path, short: bool) -> None:
    """Write it into the map that the configuration looks it up in. Raises RuntimeApiError."""
    await api.expect(f"clear map {file}", "")
    if short:
        await api.expect(f"add map {file} 1 1", "")
