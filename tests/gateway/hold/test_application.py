"""An application behind the gateway: any method, path and body, held while it sleeps, and sent once."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yarl

from daybreak.api.common import names
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.manifests.resources import PODS
from daybreak.protocol.reports import Report
from tests.gateway.fake_application import FakeApplication
from tests.gateway.village import Village, village

HOST = "127.0.0.201"
OWNER = "application.tiny"


@dataclass
class Place:
    """An application in slot 1, in addition to the service."""

    village: Village
    application: FakeApplication
    epoch: int = 0

    async def gate(self, state: str, **spec: Any) -> None:
        """Have its gate in this state."""
        self.epoch += 1
        gate = {
            "name": "tiny",
            "state": state,
            "epoch": self.epoch,
            "phase": "Awake",
            "phaseTransitionTime": "now",
        }
        port = self.village.config.first_port + 1
        self.village.cache.put(
            SERVE_APPLICATIONS,
            {
                "kind": "ServeApplication",
                "metadata": {
                    "namespace": "ns",
                    "name": "tiny",
                    "uid": "application",
                    "creationTimestamp": "2",
                    "resourceVersion": str(self.epoch),
                },
                "spec": {"importPath": "a:b", **spec},
                "status": {
                    "gate": {
                        "port": port,
                        "protocol": spec.get("protocol", "Any"),
                        "backends": [{"cluster": "app-1"}],
                        "models": [gate],
                    }
                },
            },
        )
        await self.until(lambda report: report.epoch == self.epoch and bool(report.servers_up))

    async def until(self, good: Any) -> Report:
        """Wait for a report of its gate."""
        last = None
        try:
            async with asyncio.timeout(30):
                while True:
                    last = self.village.feed.update(-1).services.get(f"{OWNER}/tiny")
                    if last is not None and good(last):
                        return last
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"the application: {last}") from None

    async def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Send one request; status and body of its answer."""
        address = f"http://127.0.0.1:{self.village.config.first_port + 1}{path}"
        url = yarl.URL(address, encoded=True)
        async with self.village.clients.request(method, url, data=body, headers=headers) as answer:
            return answer.status, await answer.read()


@asynccontextmanager
async def place(folder: Path, state: str = "Open", **spec: Any) -> AsyncIterator[Place]:
    """Yield the application, with its Ray head."""
    async with village(folder) as around, FakeApplication(HOST, around.port) as application:
        labels = {**names.owner_labels(OWNER), "ray.io/cluster": "app-1", "ray.io/node-type": "head"}
        metadata = {"namespace": "ns", "name": "head-of-it", "resourceVersion": "1", "labels": labels}
        around.cache.put(PODS, {"metadata": metadata, "status": {"podIP": HOST, "phase": "Running"}})
        found = Place(around, application)
        await found.gate(state, **spec)
        yield found


ANY = [
    ("GET", "/", None),
    ("GET", "/v1/models", None),
    ("DELETE", "/things/7?hard=yes", None),
    ("PUT", "/v1/chat/completions", b'{"prompt_logprobs": 1}'),
    ("POST", "/v1/chat/completions", b'{"chat_template": "x", "n": 1000}'),
    ("POST", "/words", b"no JSON " * 10),
    ("PATCH", "/v1/responses/../x", b"{}"),
]


@pytest.mark.parametrize("state", ["Open", "Closed"])
async def test_request_with_any_method_and_path_is_sent_exactly_once(state: str, tmp_path: Path) -> None:
    async with place(tmp_path, state) as there:
        requested = [asyncio.create_task(there.ask(*each)) for each in ANY]
        if state == "Closed":
            await there.until(lambda report: report.held == len(ANY))
            assert not there.application.observed
            await there.gate("Open")
        assert [await each for each in requested] == [(200, body or b"") for _, _, body in ANY]
        assert there.application.observed == {(method, path): 1 for method, path, _ in ANY}


@pytest.mark.parametrize("state", ["Open", "Closed"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_request_returns_502_without_retry_if_server_dies_before_answer(
    method: str, state: str, tmp_path: Path
) -> None:
    async with place(tmp_path, state) as there:
        there.application.dies = "before"
        body = b"some words" if method == "POST" else None
        requested = asyncio.create_task(there.ask(method, "/words", body))
        if state == "Closed":
            await there.until(lambda report: report.held == 1)
            await there.gate("Open")
        status, message = await requested
        assert (status, json.loads(message)["error"]["code"]) == (502, "bad_gateway")
        assert there.application.observed == {(method, "/words"): 1}, "it may have begun"
        there.application.dies = ""
        assert await there.ask("POST", "/words", b"again") == (200, b"again")


async def test_interrupted_answer_is_cut_and_request_is_not_retried(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        there.application.dies = "within"
        with pytest.raises(aiohttp.ClientPayloadError):
            await there.ask("POST", "/words", b"some words")
        assert there.application.observed == {("POST", "/words"): 1}


@pytest.mark.parametrize("path", ["/-/healthz", "/-/routes", "/%2D/routes", "/-%2Froutes", "/%2d%2froutes"])
async def test_internal_path_of_serve_returns_404(path: str, tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        assert (await there.ask("GET", path))[0] == 404
        assert not there.application.observed


async def test_v2_application_accepts_only_paths_below_v2(tmp_path: Path) -> None:
    async with place(tmp_path, protocol="V2") as there:
        assert (await there.ask("GET", "/v2/health/ready"))[0] == 200
        assert (await there.ask("POST", "/v2/models/a/infer", b"{}"))[0] == 200
        assert (await there.ask("GET", "/v2"))[0] == 200
        for path in ("/", "/v22", "/v1/models", "/metrics"):
            assert (await there.ask("GET", path))[0] == 404


ROUTES = [{"prefix": "/words"}, {"prefix": "/api/v1"}]


async def test_only_paths_below_configured_routes_pass(tmp_path: Path) -> None:
    async with place(tmp_path, routes=ROUTES) as there:
        for path in ("/words", "/words/", "/words/7?x=/a/../b", "/%77ords", "/api/v1/things"):
            assert (await there.ask("GET", path))[0] == 200, path
        before = dict(there.application.observed)
        climbing = ("/words/../admin", "/words/%2e%2E/admin", "/words%2f..%2fadmin")
        for path in ("/", "/wordsmith", "/api", "/api/v2", "//words", *climbing):
            assert (await there.ask("GET", path))[0] == 404, path
        assert there.application.observed == before
        await there.gate("Open", routes=[{"prefix": "/admin"}])
        assert (await there.ask("GET", "/words"))[0] == 404
        assert (await there.ask("GET", "/admin"))[0] == 200
        await there.gate("Open", routes=[{"prefix": "/words"}, {"prefix": "/"}])
        assert (await there.ask("GET", "/anything"))[0] == 200
        await there.gate("Open")
        assert (await there.ask("GET", "/anything/else"))[0] == 200


async def test_openai_application_lists_models_and_rejects_other_paths(tmp_path: Path) -> None:
    async with place(tmp_path, protocol="OpenAI", models=["one", "two"]) as there:
        status, listed = await there.ask("GET", "/v1/models")
        assert status == 200
        assert b'"one"' in listed
        assert b'"two"' in listed
        assert (await there.ask("POST", "/v1/chat/completions", b'{"model": "two"}'))[0] == 200
        assert (await there.ask("POST", "/v1/chat/completions", b'{"model": "three"}'))[0] == 404
        assert (await there.ask("GET", "/words"))[0] == 404
        assert there.application.observed == {("POST", "/v1/chat/completions"): 1}


async def test_application_status_425_is_forwarded_without_retry(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        there.application.status = 425
        assert (await there.ask("POST", "/once", b"x"))[0] == 425
        assert there.application.observed == {("POST", "/once"): 1}


@pytest.mark.parametrize("size", [100, 200_000])
async def test_body_above_size_limit_returns_413(size: int, tmp_path: Path) -> None:
    async with place(tmp_path, hold={"maxBodyBytes": str(size - 1)}) as there:
        assert (await there.ask("POST", "/words", b"x" * size))[0] == 413
        assert (await there.ask("POST", "/words", b"x" * (size - 1)))[0] == 200


async def test_a_web_socket_counts_as_in_flight(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        url = f"http://127.0.0.1:{there.village.config.first_port + 1}/chat"
        async with there.village.clients.ws_connect(url) as socket:
            await socket.send_str("hello")
            assert await socket.receive_str() == "echo of hello"
            await there.until(lambda report: report.in_flight == 1)
        await there.until(lambda report: report.in_flight == 0)


def keys(folder: Path) -> dict[str, Any]:
    """`access` with two keys, one of which opens something else only."""
    secret = folder / "keys" / "secret"
    secret.mkdir(parents=True)
    for name in ("good", "narrow"):
        (secret / name).write_text(f"sk-{name}")
    names_of = ("good", "narrow")
    found: list[dict[str, Any]] = [{"secretRef": {"name": "secret", "key": name}} for name in names_of]
    found[1]["models"] = ["other"]
    return {"apiKeys": found}


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
async def test_request_without_valid_key_is_rejected_for_any_method(method: str, tmp_path: Path) -> None:
    access = keys(tmp_path)
    async with place(tmp_path, access=access) as there:
        assert (await there.ask(method, "/x"))[0] == 401
        assert (await there.ask(method, "/x", Authorization="Bearer sk-bad"))[0] == 401
        assert (await there.ask(method, "/x", Authorization="Bearer sk-narrow"))[0] == 403
        assert not there.application.observed
        assert (await there.ask(method, "/x", Authorization="Bearer sk-good"))[0] == 200
        assert there.application.observed == {(method, "/x"): 1}


async def test_cors_preflight_is_answered_by_gateway_without_key(tmp_path: Path) -> None:
    access = {**keys(tmp_path), "corsOrigins": ["https://chat.example"]}
    async with place(tmp_path, access=access) as there:
        status, _ = await there.ask("OPTIONS", "/x", Origin="https://chat.example")
        assert status in (200, 204)
        assert not there.application.observed
