"""Models outside of the cluster, as the router is told them."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import quote

import structlog

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError
from daybreak.gateway.router import pieces

BACKEND = "external"
"""HAProxy's backend for them."""
log = structlog.get_logger("daybreak.gateway")

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_AT_ONCE = 4
"""Certificates in one command: HAProxy reads what its buffer takes."""


@dataclass(frozen=True)
class External:
    """A model outside of the cluster."""

    route: str
    """The LLMRoute."""
    host: str
    """Its DNS name, for which its certificate must be valid."""
    port: int
    path: str
    """That of the base URL, without a last `/`."""
    address: str
    """Where the host is at this moment."""
    model: str
    """What the request asks for when it comes there."""
    after_ms: int = 0
    """For how long a request is held by the model before; 0: until its hold ends."""
    key: str = field(default="", repr=False)
    """The API key that it is asked with; empty: none."""
    certificates: tuple[str, ...] = field(default=(), repr=False)
    """Those that are believed, in PEM."""

    @property
    def server(self) -> str:
        """HAProxy's server: one for those that are verified in the same way."""
        return f"ca-{hashlib.sha256(''.join(self.certificates).encode()).hexdigest()[:16]}"


def certificates(text: str) -> tuple[str, ...]:
    """The certificates in a text in PEM."""
    return tuple(found.replace("\r", "") for found in _CERTIFICATE.findall(text))


def words(externals: Collection[External]) -> str:
    """All of them, as one word of a command."""
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


async def tell(api: RuntimeApi, externals: Collection[External]) -> None:
    """Say to a HAProxy where they are. Raises RuntimeApiError.

    Those whose certificates HAProxy does not take are left out, and the others are told all the same.
    """
    refused = set()
    if externals:
        there = {line.split(" ")[3] for line in (await _servers(api)) if line.count(" ") > 3}
        for each in {each.server: each for each in externals if each.server not in there}.values():
            try:
                await _add(api, each.server, each.certificates)
            except RuntimeApiError as error:
                log.warning("CA certificates are not taken", route=each.route, error=str(error))
                await api.command(f"abort ssl ca-file {each.server}")
                refused.add(each.server)
    taken = [each for each in externals if each.server not in refused]
    for command in pieces.commands("external", words(taken)):
        await api.expect(command, "ok")


async def _servers(api: RuntimeApi) -> list[str]:
    return (await api.command(f"show servers state {BACKEND}")).splitlines()


async def _add(api: RuntimeApi, name: str, found: tuple[str, ...]) -> None:
    """Add a server that believes these certificates."""
    # One that is there was begun by an agent that ended on the way.
    await _said(api, f"new ssl ca-file {name}", "created", "already exists")
    for at in range(0, len(found), _AT_ONCE):
        verb, text = "add" if at else "set", "\n".join(found[at : at + _AT_ONCE])
        await _said(api, f"{verb} ssl ca-file {name} <<\n{text}\n", "transaction")
    await _said(api, f"commit ssl ca-file {name}", "Success")
    options = f"weight 0 ssl verify required ca-file {name} sni var(txn.daybreak_external_host)"
    await _said(api, f"add server {BACKEND}/{name} 0.0.0.0:0 {options}", "registered")
    await api.expect(f"enable server {BACKEND}/{name}")


async def _said(api: RuntimeApi, command: str, *good: str) -> None:
    answer = await api.command(command)
    if not any(word in answer for word in good):
        raise RuntimeApiError(f"{' '.join(command.split()[:4])}: {answer[:200]}")
