"""One connection pool to the API server.

Kubeconfigs are read by the official client (`kubernetes.aio`, see `credentials.py`). Its generated methods
are passed by, because they return None when an apply creates an object (201 is missing in their table of
answers), build a model of every object, and count nothing; its connections, since all of it would have to be
loaded for them.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson

from daybreak import versions
from daybreak.api.schema.resource import Resource
from daybreak.kube import metrics
from daybreak.kube.credentials import Configuration, configured
from daybreak.kube.errors import ApiError, from_response, unreachable

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"

REQUEST_SECONDS = 8.0
"""How long one request may take; `kube.lease` counts on it that a write has ended by then."""
LIST_SECONDS = 60.0
"""How long one page of a list may take."""
CONNECT_SECONDS = 5.0
WATCH_START_SECONDS = 60.0
"""Maximum time until the API server begins a watch; the head of its response needs no event."""
KEEPALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
"""Probes of a silent connection: a peer that answers none is gone after 60 s. A quiet watch has no other sign
of life."""
LINE_BYTES = 2 * 2**20
"""Half of the longest event of a watch, which is one line: objects in etcd have up to 1.5 MiB."""

AGENT = f"daybreak-operator/{versions.DAYBREAK}"

Query = Mapping[str, str]


class Api:
    """Requests to the API server, counted, with errors as `ApiError`."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.proxy = configuration.proxy or _proxy(configuration.host)
        self._configuration = configuration
        self._tls = _tls(configuration)
        self._opened: dict[bool, aiohttp.ClientSession] = {}
        """The connections of watches, under True, and of all other requests."""

    @classmethod
    async def connect(cls) -> Self:
        """With the pod's service account, or outside of a cluster with the kubeconfig ($KUBECONFIG)."""
        return cls(await configured())

    async def close(self) -> None:
        """Close every connection."""
        for session in self._opened.values():
            await session.close()

    def _session(self, *, watches: bool) -> aiohttp.ClientSession:
        """Return the session of watches, or that of all other requests.

        A session needs a running event loop, so the first request opens it. Each watch keeps a connection,
        and their number grows with namespaces and named ConfigMaps: they are not limited, and leave the
        limited ones to requests.
        """
        if watches not in self._opened:
            connector = aiohttp.TCPConnector(
                limit=0 if watches else self._configuration.connection_pool_maxsize,
                ssl=self._tls,
                socket_factory=_keepalive_socket,
            )
            self._opened[watches] = aiohttp.ClientSession(
                connector=connector,
                # Left to itself, aiohttp looks for a proxy and a ~/.netrc before every request, in a thread.
                trust_env=False,
                read_bufsize=LINE_BYTES,
            )
        return self._opened[watches]

    async def request(
        self,
        verb: str,
        resource: Resource,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        seconds: float = REQUEST_SECONDS,
    ) -> dict[str, Any]:
        """Ask and return the answer's object.

        Args:
            verb: get, list, create, update, apply, patch or delete: for the method and for counting.
            resource: The kind, for counting.
            path: Path on the API server.
            query: Parameters.
            body: What is sent, as JSON.
            content_type: Of the body.
            seconds: Time-out.
        """
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        try:
            response = await self._send(_METHODS[verb], path, query, body, content_type, limits)
            data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            metrics.REQUESTS.labels(verb, resource.plural, "none").inc()
            raise unreachable(error) from error
        metrics.REQUESTS.labels(verb, resource.plural, str(response.status)).inc()
        if response.status >= 300:
            raise from_response(response.status, data, response.headers.get("Retry-After"))
        answer: dict[str, Any] = orjson.loads(data)
        return answer

    async def find(
        self, resource: Resource, path: str, *, seconds: float = REQUEST_SECONDS
    ) -> dict[str, Any] | None:
        """What the API server has at a path this moment, or None when that is nothing."""
        try:
            return await self.request("get", resource, path, seconds=seconds)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def watch(
        self, resource: Resource, path: str, query: Query, stall_seconds: float
    ) -> AsyncIterator[Any]:
        """The events of a watch, each as it comes, until the API server ends it.

        Raises `ApiError` when the connection breaks, the watch does not begin within `WATCH_START_SECONDS`,
        or nothing comes for `stall_seconds`.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=stall_seconds)
        response = None
        try:
            async with asyncio.timeout(WATCH_START_SECONDS):
                response = await self._send("GET", path, query, None, JSON, limits, watches=True)
            metrics.REQUESTS.labels("watch", resource.plural, str(response.status)).inc()
            if response.status >= 300:
                raise from_response(
                    response.status, await response.read(), response.headers.get("Retry-After")
                )
            async for line in response.content:
                yield orjson.loads(line)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise unreachable(error) from error
        finally:
            if response is not None:
                response.close()

    async def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Any,
        content_type: str,
        limits: aiohttp.ClientTimeout,
        *,
        watches: bool = False,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": JSON, "User-Agent": AGENT}
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = orjson.dumps(body)
        # Asked for each time: tokens renew themselves.
        token: Any = (await self._configuration.auth_settings()).get("BearerToken")
        if token is not None:
            headers[token["key"]] = token["value"]
        return await self._session(watches=watches).request(
            method,
            self._configuration.host + path + (f"?{urlencode(query)}" if query else ""),
            headers=headers,
            data=data,
            timeout=limits,
            proxy=self._configuration.proxy,
            proxy_headers=self._configuration.proxy_headers,
            server_hostname=self._configuration.tls_server_name or None,
        )


_METHODS = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "apply": "PATCH",
    "patch": "PATCH",
    "delete": "DELETE",
}


def _keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket for a connection that notices when its peer is gone."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _proxy(server: str) -> str | None:
    """The proxy that the environment names for the API server (HTTPS_PROXY, NO_PROXY), or None."""
    address, proxies = urlsplit(server), getproxies()
    if proxy_bypass(address.hostname or ""):
        return None
    return proxies.get(address.scheme)


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """How the API server is known, and we are where we have a certificate."""
    made = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if configuration.cert_file:
        made.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made
