"""Connection pool to the API server.

The official client reads kubeconfigs (`kubernetes.aio`, see `credentials.py`). Its generated methods are not
used: they return None when an apply creates an object (201 is missing in their response table). They also
build a model of every object, and count nothing. Its connections are not used because they would load all of
that.
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
"""Maximum duration of one request in seconds. `kube.lease` relies on it as the end of a write."""
LIST_SECONDS = 60.0
"""Maximum duration of a request for one page of a list in seconds."""
CONNECT_SECONDS = 5.0
WATCH_START_SECONDS = 60.0
"""Maximum time in seconds until the API server begins a watch. The head of its response needs no event."""
KEEPALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
"""TCP keepalive probes of a silent connection: an unresponsive peer is detected after 60 s. A quiet watch
gives no other sign of life."""
LINE_BYTES = 2 * 2**20
"""Half of the maximum size in bytes of a watch event, which is one line: objects in etcd have up to 1.5
MiB."""

AGENT = f"daybreak-operator/{versions.DAYBREAK}"

Query = Mapping[str, str]


class Api:
    """Requests to the API server, with metrics and with errors as `ApiError`."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.proxy = configuration.proxy or _proxy(configuration.host)
        self._configuration = configuration
        self._tls = _tls(configuration)
        self._opened: dict[bool, aiohttp.ClientSession] = {}
        """Sessions of watches, under True, and of all other requests."""

    @classmethod
    async def connect(cls) -> Self:
        """Connect with the pod's service account, or outside a cluster with `$KUBECONFIG`."""
        return cls(await configured())

    async def close(self) -> None:
        """Close every connection."""
        for session in self._opened.values():
            await session.close()

    def _session(self, *, watches: bool) -> aiohttp.ClientSession:
        """Return the session of watches, or that of all other requests.

        A session needs a running event loop, so the first request opens it. Each watch keeps a connection,
        and their number grows with namespaces and named ConfigMaps. Therefore watches have no connection
        limit, and requests have a separate limit.
        """
        if watches not in self._opened:
            connector = aiohttp.TCPConnector(
                limit=0 if watches else self._configuration.connection_pool_maxsize,
                ssl=self._tls,
                socket_factory=_keepalive_socket,
            )
            self._opened[watches] = aiohttp.ClientSession(
                connector=connector,
                # By default, aiohttp looks for a proxy and a ~/.netrc before every request, in a thread.
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
        """Send a request and return the object in the response.

        Args:
            verb: One of get, list, create, update, apply, patch or delete; sets the method and the metrics
                label.
            resource: Kind of the object, for the metrics label.
            path: Path on the API server.
            query: Query parameters.
            body: Body of the request, sent as JSON.
            content_type: Content type of the body.
            seconds: Timeout in seconds.
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
        """Return the API server's current object at a path, or None if there is none."""
        try:
            return await self.request("get", resource, path, seconds=seconds)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def watch(
        self, resource: Resource, path: str, query: Query, stall_seconds: float
    ) -> AsyncIterator[Any]:
        """Yield the events of a watch as they arrive, until the API server ends the watch.

        Raises:
            ApiError: The connection breaks, the watch does not begin within `WATCH_START_SECONDS`, or no data
                arrives for `stall_seconds`.
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
        # Read for each request, because tokens are renewed.
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
    """Return a socket with keepalive probes, which detect a dead peer."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _proxy(server: str) -> str | None:
    """Return the proxy for the API server from the environment (`HTTPS_PROXY`, `NO_PROXY`), or None."""
    address, proxies = urlsplit(server), getproxies()
    if proxy_bypass(address.hostname or ""):
        return None
    return proxies.get(address.scheme)


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """Return the TLS context that verifies the API server, with a client certificate if one is configured."""
    made = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if configuration.cert_file:
        made.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made
