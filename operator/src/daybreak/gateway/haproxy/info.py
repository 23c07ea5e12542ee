"""How many connections a HAProxy has, and flags that its configuration looks up in maps."""

from dataclasses import dataclass
from pathlib import Path

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError

SET = "1"
"""A flag of a map that has one."""
_FULL = "2"


def shortage(short: bool, full: bool) -> tuple[str, ...]:
    """Return the flags that say how short of room a gateway is."""
    return (SET,) * short + (_FULL,) * full


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


async def clients(api: RuntimeApi, frontend: str) -> int:
    """Return the number of connections that a frontend has, idle ones included. Raises RuntimeApiError."""
    lines = (await api.command(f"show stat {frontend} 1 -1")).splitlines()
    try:
        names, values = lines[0].removeprefix("# ").split(","), lines[1].split(",")
        return int(values[names.index("scur")])
    except (IndexError, ValueError) as error:
        raise RuntimeApiError(f"show stat {frontend}: {error}") from error


async def set_flags(api: RuntimeApi, file: Path, *flags: str) -> None:
    """Write flags into the map that the configuration looks them up in, and no others.

    Raises RuntimeApiError.
    """
    await api.expect_all(f"clear map {file}", *(f"add map {file} {flag} 1" for flag in flags))
