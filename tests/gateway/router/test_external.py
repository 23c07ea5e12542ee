"""A model outside of the cluster gets requests that no backend accepts: real HAProxies, a real TLS server."""

import datetime
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from daybreak.gateway.hold.table import Gate
from daybreak.gateway.router.external import External, certificates
from daybreak.gateway.router.shares import Share, Way
from tests.gateway.router.test_route_tallies import BIG, counted
from tests.gateway.router.test_shared_names import ask, ask_many, got, way
from tests.gateway.town import Town

HOST = "api.example.com"
KEY = "sk-outside:+/,%"
OUTSIDE = f"external.{HOST}/big-model"


class Authority:
    """A CA of the test's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the test's")])
        own = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.pem = own.public_bytes(serialization.Encoding.PEM).decode()

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        made = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - day).not_valid_after(now + day)
        return made.add_extension(extension, critical=False).sign(self._key, hashes.SHA256())

    def context(self, host: str) -> ssl.SSLContext:
        """TLS of a server whose certificate is for this host."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        found = self._signed(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]), key, names)
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        file = self._folder / f"{host}.pem"
        private = key.private_bytes(pem, form, serialization.NoEncryption())
        file.write_bytes(private + found.public_bytes(pem))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        return context


class FakeOpenAi:
    """An external API, behind TLS."""

    def __init__(self) -> None:
        self.observed: list[tuple[str, dict[str, str], bytes]] = []
        """Path, headers and body of each request."""
        self.status = 200
        self.port = 0

    async def start(self, context: ssl.SSLContext) -> web.AppRunner:
        """Listen on the loopback."""
        app = web.Application(client_max_size=2**30)
        app.router.add_post("/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        return runner

    async def _answer(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.observed.append((request.path_qs, headers, await request.read()))
        out = {"Set-Cookie": "a=b", "OpenAI-Organization": "ours", "X-Daybreak-Final": "429", "Location": "/"}
        return web.json_response({"model": "big-model"}, status=self.status, headers=out)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def openai(authority: Authority) -> AsyncIterator[FakeOpenAi]:
    api = FakeOpenAi()
    runner = await api.start(authority.context(HOST))
    yield api
    await runner.cleanup()


async def route(town: Town, api: FakeOpenAi, ca: str, *, first: bool = True, **more: Any) -> None:
    """Have the name `chat` lead to the first service, and then out of the cluster."""
    message: dict[str, Any] = {"host": HOST, "key": KEY, **more}
    found = External(
        "r:1",
        port=api.port,
        path="/v1",
        address="127.0.0.1",
        model="big-model",
        certificates=certificates(ca),
        **message,
    )
    await town.router.set_externals([found])
    ways = (way(town, 0),) if first else ()
    outside = Way(f"external.{HOST}", "big-model", 0, 300)
    share = Share("r:1", ("chat",), ways, fallback=(outside,), since="2026-01-01T00:00:00Z")
    await town.router.set_routes(town.routes, [share])


async def test_rejected_request_reaches_external_model_without_client_headers(
    town: Town, openai: FakeOpenAi, authority: Authority
) -> None:
    await town.gate(0, Gate.CLOSED, max_held=0)
    await route(town, openai, authority.pem)
    sent = {
        "Authorization": "Bearer sk-inside",
        "X-Api-Key": "sk-inside",
        "Cookie": "c=d",
        "X-Forwarded-For": "10.0.0.1",
        "X-Session-Id": "s",
        "Accept": "application/json",
        "Content-Type": "application/json",
        "Origin": "https://page.example.com",
    }
    body = b'{"model": "chat", "messages": [], "user": "u"}'
    url = town.url + "/v1/chat/completions?a=b"
    async with town.clients.post(url, data=body, headers=sent) as answer:
        assert answer.status == 200
        assert (await answer.json())["model"] == "big-model"
        back = {name.lower() for name in answer.headers}
    assert not back & {"set-cookie", "openai-organization", "x-daybreak-final"}
    ((path, headers, arrived),) = openai.observed
    assert path == "/v1/chat/completions"
    assert arrived == b'{"model": "big-model", "messages": [], "user": "u"}'
    assert headers == {
        "host": f"{HOST}:{openai.port}",
        "authorization": f"Bearer {KEY}",
        "accept": "application/json",
        "content-type": "application/json",
        "content-length": str(len(arrived)),
        "user-agent": "daybreak-gateway",
    }
    found = await counted(town, lambda tallies: OUTSIDE in tallies and tallies[OUTSIDE].answered == 1)
    assert (found[BIG].passed_on, found[BIG].answered, found[BIG].errors) == (1, 0, 0)
    assert (found[OUTSIDE].sent, found[OUTSIDE].errors, found[OUTSIDE].first.total) == (1, 0, 1)
    assert got(town) == [0, 0]


async def test_large_body_is_sent_to_external_model(
    town: Town, openai: FakeOpenAi, authority: Authority
) -> None:
    """If the model's name is beyond the part that the first HAProxy reads, the other one sends it."""
    await town.gate(0, Gate.FAILED)
    await route(town, openai, authority.pem)
    text = "x" * 200_000
    for body in ({"messages": [text], "model": "chat"}, {"model": "chat", "messages": [text]}):
        assert (await town.ask("large", body))[0] == 200
        _, headers, arrived = openai.observed.pop()
        assert json.loads(arrived) == {**body, "model": "big-model"}
        assert headers["authorization"] == f"Bearer {KEY}"
        assert not [name for name in headers if name.startswith("x-")]
    found = await counted(town, lambda tallies: OUTSIDE in tallies and tallies[OUTSIDE].answered == 2)
    assert found[OUTSIDE].errors == 0


async def test_request_goes_to_external_model_only_if_held_too_long(
    town: Town, openai: FakeOpenAi, authority: Authority
) -> None:
    await town.wake(0)
    await route(town, openai, authority.pem)
    assert await ask_many(town, 20) == {200: 20}
    assert (openai.observed, got(town)) == ([], [20, 0])
    await town.gate(0, Gate.CLOSED, hold_ms=60_000)
    assert await ask(town, "held") == 200
    assert len(openai.observed) == 1, "after 300 ms"


async def test_request_returns_503_if_backend_or_external_model_is_missing(
    town: Town, openai: FakeOpenAi, authority: Authority
) -> None:
    """No backend has checked the API key of a request that none has received."""
    await route(town, openai, authority.pem, first=False)
    assert await ask(town, "direct") == 503
    # The request is also rejected if no external model is configured.
    await town.gate(0, Gate.FAILED, reason="no")
    await route(town, openai, authority.pem)
    await town.router.set_externals([])
    assert await ask(town, "nobody") == 503
    assert openai.observed == []


@pytest.mark.parametrize("wrong", ["name", "authority"])
async def test_external_host_with_wrong_certificate_is_rejected(
    wrong: str, town: Town, openai: FakeOpenAi, authority: Authority, tmp_path: Path
) -> None:
    await town.gate(0, Gate.FAILED)
    if wrong == "name":
        await route(town, openai, authority.pem, host="other.example.com")
    else:
        (tmp_path / "other").mkdir()
        await route(town, openai, Authority(tmp_path / "other").pem)
    assert await ask(town, "r") == 503
    assert openai.observed == [], "not even our key has gone there"
    found = await counted(town, lambda tallies: OUTSIDE in tallies and tallies[OUTSIDE].answered == 1)
    assert found[OUTSIDE].errors == 1
    # What was believed for another route is not believed here; and the right one is.
    await route(town, openai, authority.pem)
    assert await ask(town, "r") == 200


@pytest.mark.parametrize("status", [302, 401, 403, 429, 500])
async def test_external_redirect_and_key_errors_are_replaced_by_502(
    status: int, town: Town, openai: FakeOpenAi, authority: Authority
) -> None:
    await town.gate(0, Gate.FAILED)
    await route(town, openai, authority.pem)
    openai.status = status
    url = town.url + "/v1/chat/completions"
    async with town.clients.post(url, data=b'{"model": "chat"}', allow_redirects=False) as answer:
        if status in (429, 500):
            assert answer.status == status
        else:
            assert (answer.status, "Location" in answer.headers) == (502, False)
            assert (await answer.json())["error"]["code"] == "external_refused"


async def test_external_key_is_not_visible_after_repeated_configuration(
    town: Town, openai: FakeOpenAi, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    await town.gate(0, Gate.FAILED)
    await route(town, openai, authority.pem * 130)  # as many as an image has
    assert await ask(town, "many") == 200
    for _ in range(2):
        await route(town, openai, authority.pem)
    shown = [str(External("r", HOST, 443, "", "1.2.3.4", "m", key=KEY)), caplog.text]
    shown += [file.read_text() for file in town.router.config.folder.glob("*.cfg")]
    for command in ("show servers state", "show ssl ca-file", "router tallies", "router shares"):
        shown.append(await town.router._haproxy.api.command(command))
    assert HOST in shown[0]
    assert not any("sk-outside" in text for text in shown)
    await route(town, openai, authority.pem, key="")
    assert await ask(town, "r", authorization="Bearer sk-inside") == 200
    assert "authorization" not in openai.observed[-1][1]


async def test_requests_are_rejected_until_invalid_certificates_are_replaced(
    town: Town, openai: FakeOpenAi, authority: Authority
) -> None:
    await town.gate(0, Gate.FAILED)
    none = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
    for broken in (none, authority.pem * 4 + none):
        await route(town, openai, broken)
        assert await ask(town, "broken") == 503
    assert openai.observed == []
    await route(town, openai, authority.pem)
    assert await ask(town, "r") == 200


def test_certificates_are_extracted_from_text_with_other_content() -> None:
    one = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----"
    assert certificates(f"# a\n{one}\r\n\nb\n{one}") == (one, one)
    assert certificates("-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----") == ()
