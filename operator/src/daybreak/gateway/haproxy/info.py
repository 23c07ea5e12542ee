"""Number of HAProxy's connections, and flags in maps of its configuration."""

from dataclasses import dataclass
from pathlib import Path

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError

SET = "1"
"""Flag of a map that has only one."""
_FULL = "2"


def shortage(short: bool, full: bool) -> tuple[str, ...]:
    """Return the flags for a gateway's shortage of capacity."""
    return (SET,) * short + (_FULL,) * full


@dataclass(frozen=True)
class Connections:
    """Number of client connections."""

    now: int
    limit: int


async def connections(api: RuntimeApi) -> Connections:
    """Query HAProxy for its connections. Raises RuntimeApiError."""
    lines = (await api.command("show info")).splitlines()
    found = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        return Connections(now=int(found["CurrConns"]), limit=max(1, int(found["Maxconn"])))
    except (KeyError, ValueError) as error:
        raise RuntimeApiError(f"show info: {error}") from error


async def clients(api: RuntimeApi, frontend: str) -> int:
    """Return the number of connections that a frontend has, idle ones included. Raises RuntimeApiError."""
    lines = (await api.command(f"show stat {frontend} 1 -1")).splitlines()
    try:
        names, values = lines[0].removeprefix("# ").split(","), lines[1].split(",")
        return int(values[names.index("scur")])
    except (IndexError, ValueError) as error:
        raise RuntimeApiError(f"show stat {frontend}: {error}") from error


async def set_flags(api: RuntimeApi, file: Path, *flags: str) -> None:
    """Replace the flags of a map.

    Raises RuntimeApiError.
    """
    await api.expect_all(f"clear map {file}", *(f"add map {file} {flag} 1" for flag in flags))
