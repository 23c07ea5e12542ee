"""Configuration of the router for models outside the cluster."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import quote

import structlog

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError
from daybreak.gateway.router import pieces

BACKEND = "external"
"""HAProxy's backend for external models."""
log = structlog.get_logger("daybreak.gateway")

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_AT_ONCE = 4
"""Maximum number of certificates in one command, which must fit HAProxy's buffer."""


@dataclass(frozen=True)
class External:
    """Model outside the cluster."""

    route: str
    """Name of the LLMRoute."""
    host: str
    """DNS name, for which the server's certificate must be valid."""
    port: int
    path: str
    """Path of the base URL, without a trailing `/`."""
    address: str
    """Current IP address of the host."""
    model: str
    """Model name in requests to the host."""
    after_ms: int = 0
    """Milliseconds for which the previous model holds a request; 0: until its hold ends."""
    key: str = field(default="", repr=False)
    """API key for the host; empty: none."""
    certificates: tuple[str, ...] = field(default=(), repr=False)
    """Trusted CA certificates, in PEM."""

    @property
    def server(self) -> str:
        """HAProxy server; models with the same certificates share one."""
        return f"ca-{hashlib.sha256(''.join(self.certificates).encode()).hexdigest()[:16]}"


def certificates(text: str) -> tuple[str, ...]:
    """Return the certificates in a PEM text."""
    return tuple(found.replace("\r", "") for found in _CERTIFICATE.findall(text))


def words(externals: Collection[External]) -> str:
    """Return all external models as one word of a command."""
    return ",".join(
        ":".join(
            quote(part, safe="")
            for part in (
                each.route,
                each.server,
                each.address,
                str(each.port),
                each.host,
                each.path,
                each.key,
            )
        )
        for each in externals
    )


async def notify(api: RuntimeApi, externals: Collection[External]) -> None:
    """Send the external models to a HAProxy. Raises RuntimeApiError.

    Models whose certificates HAProxy rejects are omitted, and the others are sent anyway.
    """
    refused = set()
    if externals:
        there = {line.split(" ")[3] for line in (await _servers(api)) if line.count(" ") > 3}
        for each in {each.server: each for each in externals if each.server not in there}.values():
            try:
                await _add(api, each.server, each.certificates)
            except RuntimeApiError as error:
                log.warning("HAProxy rejected CA certificates", route=each.route, error=str(error))
                await api.command(f"abort ssl ca-file {each.server}")
                refused.add(each.server)
    taken = [each for each in externals if each.server not in refused]
    for command in pieces.commands("external", words(taken)):
        await api.expect(command, "ok")


async def _servers(api: RuntimeApi) -> list[str]:
    return (await api.command(f"show servers state {BACKEND}")).splitlines()


async def _add(api: RuntimeApi, name: str, found: tuple[str, ...]) -> None:
    """Add a server that trusts these certificates."""
    # An existing file was begun by an agent that ended before it was complete.
    await _expect(api, f"new ssl ca-file {name}", "created", "already exists")
    for at in range(0, len(found), _AT_ONCE):
        verb, text = "add" if at else "set", "\n".join(found[at : at + _AT_ONCE])
        await _expect(api, f"{verb} ssl ca-file {name} <<\n{text}\n", "transaction")
    await _expect(api, f"commit ssl ca-file {name}", "Success")
    options = f"weight 0 ssl verify required ca-file {name} sni var(txn.daybreak_external_host)"
    await _expect(api, f"add server {BACKEND}/{name} 0.0.0.0:0 {options}", "registered")
    await api.expect(f"enable server {BACKEND}/{name}")


async def _expect(api: RuntimeApi, command: str, *good: str) -> None:
    answer = await api.command(command)
    if not any(word in answer for word in good):
        raise RuntimeApiError(f"{' '.join(command.split()[:4])}: {answer[:200]}")
