"""Addresses, keys and trusted certificates of models outside the cluster."""

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from daybreak.api.common.https import host_of, port_of
from daybreak.api.common.unstructured import at, mapping, text
from daybreak.api.schema.scalars import milliseconds
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.router.external import External, certificates

FRESH_SECONDS = 30.0
"""Seconds for which an address is valid before the name is resolved again."""
LOOKUP_SECONDS = 5.0
_OF_CLOUDS = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "fd00:ec2::254")))
"""Metadata addresses at which clouds provide node credentials, in addition to link-local addresses."""
_SYSTEM = Path("/etc/ssl/certs/ca-certificates.crt")

Resolve = Callable[[str, int], Awaitable[list[str]]]

log = structlog.get_logger("daybreak.gateway")


def is_permitted_address(address: str) -> bool:
    """Return True if requests may go to an address.

    Addresses of this machine and of sources of node credentials are forbidden.
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    refused = found.is_loopback or found.is_link_local or found.is_multicast
    return not (refused or found.is_unspecified or found.is_reserved or found in _OF_CLOUDS)


async def resolve(host: str, port: int) -> list[str]:
    """Return the permitted addresses of a host, best first. Raises OSError if it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(each[4][0]) for each in found]
    allowed = [address for address in addresses if is_permitted_address(address)]
    if not allowed:
        raise OSError(f"none of its addresses is allowed: {', '.join(addresses)}")
    return allowed


@cache
def _believed_here() -> tuple[str, ...]:
    """Return the certificates of this image."""
    file = Path(ssl.get_default_verify_paths().cafile or _SYSTEM)
    return certificates(file.read_text()) if file.exists() else ()


class ExternalResolver:
    """Resolver of the external models of routes.

    Args:
        keys: Reader of Secrets.
        changed: Callback for a new or changed address.
        resolve: Function that returns the addresses of a host.
    """

    def __init__(self, keys: KeyFiles, changed: Callable[[], None], resolve: Resolve = resolve) -> None:
        self._keys = keys
        self._changed = changed
        self._resolve = resolve
        self._addresses: dict[tuple[str, int], tuple[str, float]] = {}
        """Addresses of hosts and their expiry on the monotonic clock; an empty address if there is none."""
        self._lookups: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._warned: dict[str, str] = {}

    def externals(self, routes: Iterable[Mapping[str, Any]]) -> dict[str, External]:
        """Return the external models that are currently available, by route. Others are being resolved."""
        found: dict[str, External] = {}
        for route in routes:
            message = at(route, "status", "externalFallback")
            name = text(mapping(route.get("metadata")).get("name"))
            if not message:
                continue
            try:
                found[name] = self._external(name, message)
                self._warned.pop(name, None)
            except ValueError as error:
                if self._warned.get(name) != str(error):
                    log.warning("External model is unavailable", route=name, why=str(error))
                self._warned[name] = str(error)
        return found

    async def close(self) -> None:
        """Cancel all lookups."""
        for task in self._lookups.values():
            task.cancel()
        await asyncio.gather(*self._lookups.values(), return_exceptions=True)

    def _external(self, route: str, report: Mapping[str, Any]) -> External:
        """Return the external model of a route. Raises ValueError with the reason if it is not available."""
        url = text(report.get("url"))
        host, port = host_of(url), port_of(url)
        if not url.startswith("https://") or not host or not port:
            raise ValueError("its URL cannot be used")
        key = self._secret(report, "apiKeySecretRef")
        if key is not None and not key.isprintable():
            raise ValueError("its API key has characters that a header cannot contain")
        authorities = self._secret(report, "caSecretRef")
        believed = certificates(authorities) if authorities is not None else _believed_here()
        if not believed:
            raise ValueError("there are no CA certificates to verify it with")
        address = self._address(host, port)
        if not address:
            raise ValueError(f"{host} has no allowed address")
        return External(
            route=route,
            host=host,
            port=port,
            path=urlsplit(url).path.rstrip("/"),
            address=address,
            model=text(report.get("model")),
            after_ms=milliseconds(text(report.get("holdTimeout"))),
            key=key or "",
            certificates=believed,
        )

    def _secret(self, report: Mapping[str, Any], field: str) -> str | None:
        """Return the value of a Secret's key, or None if none is configured.

        Raises ValueError if it cannot be read.
        """
        reference = mapping(report.get(field))
        if not reference:
            return None
        secret, key = text(reference.get("name")), text(reference.get("key"))
        value = self._keys.value(secret, key)
        if not value:
            raise ValueError(f"{field}: key {key} of Secret {secret} cannot be read")
        return value.decode("ascii", errors="replace")

    def _address(self, host: str, port: int) -> str:
        """Return the last known address, or nothing if there is none.

        An expired address is resolved again.
        """
        where = host, port
        address, until = self._addresses.get(where, ("", 0.0))
        if time.monotonic() >= until and where not in self._lookups:
            self._lookups[where] = asyncio.create_task(self._look_up(where, address))
        return address

    async def _look_up(self, where: tuple[str, int], before: str) -> None:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                found = await self._resolve(*where)
            address = before if before in found else found[0]
        except (OSError, TimeoutError) as error:
            log.warning("Failed to resolve an external host", host=where[0], error=str(error))
            # A temporary failure of the name server must not discard the known address.
            address = before
        self._addresses[where] = address, time.monotonic() + FRESH_SECONDS
        del self._lookups[where]
        if address != before:
            self._changed()
