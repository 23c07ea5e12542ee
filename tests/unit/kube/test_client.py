"""Connections to the API server: requests, also through a proxy from kubeconfig or environment."""

import asyncio
import os
import socket
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from cluster.control_plane.certs import Authority
from daybreak import versions
from daybreak.kube import client
from daybreak.kube.client import APPLY, Api
from daybreak.kube.errors import ApiError
from daybreak.manifests.resources import SERVICES

SERVER = "https://cluster.example:6443"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("environment", "named", "desired"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, None, "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "cluster.example"}, None, None),
        ({"HTTP_PROXY": "http://proxy:3128"}, None, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://kubeconfig:1", "http://kubeconfig:1"),
    ],
)
async def test_proxy_is_taken_from_kubeconfig_before_environment(
    environment: dict[str, str], named: str | None, desired: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    configuration = Configuration(host=SERVER, proxy=named)
    api = Api(configuration)
    try:
        assert configuration.proxy == desired
    finally:
        await api.close()


async def test_request_has_current_token_and_encoded_query_and_body() -> None:
    met = []

    async def answer(request: web.Request) -> web.Response:
        names = ("Authorization", "Content-Type", "Accept", "User-Agent")
        headers = {name: request.headers.get(name) for name in names}
        met.append((request.method, request.path_qs, headers, await request.read()))
        return web.json_response({"metadata": {}})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        configuration = Configuration(host=str(server.make_url("")).rstrip("/"))
        tokens = iter(["bearer one", "bearer two"])

        def refresh(current: Configuration) -> None:
            current.api_key["BearerToken"] = next(tokens)

        configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]  # the library says None
        configuration.api_key["BearerToken"] = "bearer zero"
        api = Api(configuration)
        try:
            await api.request("get", SERVICES, "/api/v1/services/a", query={"a": "b&c"})
            body = {"kind": "Wärme", "n": 1}
            await api.request("apply", SERVICES, "/api/v1/services/a", body=body, content_type=APPLY)
        finally:
            await api.close()
    agent = f"daybreak-operator/{versions.DAYBREAK}"
    common = {"Accept": "application/json", "User-Agent": agent}
    assert met == [
        (
            "GET",
            "/api/v1/services/a?a=b%26c",
            common | {"Authorization": "bearer one", "Content-Type": None},
            b"",
        ),
        (
            "PATCH",
            "/api/v1/services/a",
            common | {"Authorization": "bearer two", "Content-Type": APPLY},
            '{"kind":"Wärme","n":1}'.encode(),
        ),
    ]


async def test_server_certificate_is_verified_with_tls_server_name(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {}})

    authority = Authority(tmp_path, "authority")
    pair = authority.issue("server", "server", hosts=["cluster.example"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    app = web.Application()
    app.router.add_get("/", answer)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=tls)
    host, ca = str(server.make_url("")).rstrip("/"), str(authority.pair.certificate)
    named = Api(Configuration(host=host, ssl_ca_cert=ca, tls_server_name="cluster.example"))
    unnamed = Api(Configuration(host=host, ssl_ca_cert=ca))
    try:
        assert await named.request("get", SERVICES, "/")
        with pytest.raises(ApiError, match="certificate verify failed"):
            await unnamed.request("get", SERVICES, "/")
    finally:
        await named.close()
        await unnamed.close()
        await server.close()


async def test_silent_connection_is_probed() -> None:
    """A watch may be silent for minutes, and a vanished peer sends no sign of that."""
    began = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        began.set()
        await asyncio.sleep(30)
        return response

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        api = Api(Configuration(host=str(server.make_url("")).rstrip("/")))

        async def watch() -> None:
            async for _ in api.watch(SERVICES, "/", {}, 600.0):
                pass

        watching = asyncio.create_task(watch())
        try:
            await asyncio.wait_for(began.wait(), 10)
            timer, due = _timer(server.port)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await api.close()
    assert timer == KEEPALIVE_TIMER
    assert due <= client.KEEPALIVE[socket.TCP_KEEPIDLE]
    probes = client.KEEPALIVE[socket.TCP_KEEPINTVL] * client.KEEPALIVE[socket.TCP_KEEPCNT]
    assert client.KEEPALIVE[socket.TCP_KEEPIDLE] + probes <= 60


async def test_request_is_answered_while_watches_exceed_pool_size() -> None:
    """Each watch keeps a connection: one per kind and namespace, and one per named ConfigMap."""
    begun = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal begun
        if "watch" not in request.query:
            return web.json_response({"metadata": {}})
        response = web.StreamResponse()
        await response.prepare(request)
        begun += 1
        await asyncio.sleep(60)
        return response

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        configuration = Configuration(host=str(server.make_url("")).rstrip("/"))
        api = Api(configuration)

        async def watch() -> None:
            async for _ in api.watch(SERVICES, "/", {"watch": "true"}, 600.0):
                pass

        number = configuration.connection_pool_maxsize + 1
        watching = [asyncio.create_task(watch()) for _ in range(number)]
        try:
            assert await api.request("get", SERVICES, "/", seconds=5.0) == {"metadata": {}}
            async with asyncio.timeout(10):
                while begun < number:  # noqa: ASYNC110 -- the server tells nobody
                    await asyncio.sleep(0.01)
        finally:
            for each in watching:
                each.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            await api.close()


KEEPALIVE_TIMER = 2
"""Name of the next keepalive probe's timer in /proc/net/tcp."""


def _timer(port: int | None) -> tuple[int, float]:
    """Return the timer of the connection to a local port, and the seconds until it is due."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state, _, timer, *_ = line.split()
        if int(remote.split(":")[1], 16) == port and state == "01":
            running, due = timer.split(":")
            return int(running, 16), int(due, 16) / os.sysconf("SC_CLK_TCK")
    raise LookupError(f"no connection to port {port}")
