"""Responses of a replica's direct port."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from daybreak.gateway.haproxy.paths import PATHS, REPLICA_PATHS
from daybreak_runtime.http import paths
from daybreak_runtime.http.admission import Admission
from daybreak_runtime.http.front import FINAL, HEALTH, EngineFront
from tests.unit.runtime.asgi_calls import Client, Engine, settle


@dataclass
class Replica:
    """EngineFront with an engine behind it."""

    limit: int = 2
    most_waiting: int = 10
    well: bool = True
    engine: Engine = field(default_factory=Engine)
    kept: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        admission = Admission(lambda: self.limit, lambda: self.most_waiting)
        self.door = EngineFront(
            self.engine,
            admission,
            lambda: self.well,
            own={"/-/own": _own},
            stored=lambda response_id: response_id in self.kept,
        )

    def ask(self, client: Client) -> "asyncio.Task[Client]":
        """Send a request."""
        return asyncio.create_task(client.ask(self.door))

    async def health(self) -> tuple[int, bytes]:
        """Return status and body of the health check."""
        client = await Client(path=HEALTH, method="GET").ask(self.door)
        return client.status, client.body


async def _own(send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"own"})


async def test_health_check_reports_request_count_without_waiting() -> None:
    replica = Replica(limit=1)
    assert await replica.health() == (200, b"0")
    tasks = [replica.ask(Client()) for _ in range(3)]
    await settle()
    assert await replica.health() == (200, b"3")
    replica.engine.go.set()
    await asyncio.gather(*tasks)
    assert await replica.health() == (200, b"0")


async def test_leaving_replica_fails_health_check_but_serves_requests() -> None:
    replica = Replica()
    replica.engine.go.set()
    assert (await Client().ask(replica.door)).header(b"connection") == []
    replica.door.leave()
    assert await replica.health() == (503, b"0")
    client = await Client().ask(replica.door)
    assert client.status == 200
    assert client.header(b"connection") == [b"close"]


async def test_health_check_returns_503_if_engine_is_unhealthy() -> None:
    replica = Replica()
    replica.well = False
    assert await replica.health() == (503, b"0")


async def test_concurrent_requests_never_exceed_replica_limit() -> None:
    replica = Replica(limit=3)
    tasks = [replica.ask(Client()) for _ in range(10)]
    await settle()
    assert (replica.engine.running, replica.door.admission.waiting) == (3, 7)
    replica.engine.go.set()
    assert {(await task).status for task in tasks} == {200}
    assert replica.engine.most == 3
    assert (replica.door.admission.running, replica.door.in_progress) == (0, 0)


async def test_request_beyond_full_queue_returns_425_with_final_status_429() -> None:
    replica = Replica(limit=1, most_waiting=1)
    tasks = [replica.ask(Client()) for _ in range(2)]
    await settle()
    client = await Client().ask(replica.door)
    assert (client.status, client.header(FINAL), client.header(b"retry-after")) == (425, [b"429"], [b"1"])
    assert (client.error["code"], client.error["type"]) == ("queue_full", "rate_limit_error")
    replica.engine.go.set()
    await asyncio.gather(*tasks)


async def test_body_received_while_queued_reaches_engine_whole() -> None:
    replica = Replica(limit=1)
    first = replica.ask(Client(pieces=[b"first"]))
    second = Client(pieces=[b"one ", b"two ", b"three"])
    task = replica.ask(second)
    await settle()
    assert second.received == 3
    replica.engine.go.set()
    await asyncio.gather(first, task)
    assert replica.engine.bodies == [b"first", b"one two three"]
    assert second.body == b"one two three"


async def test_queued_request_is_removed_when_client_disconnects() -> None:
    replica = Replica(limit=1)
    first = replica.ask(Client())
    gone, patient = Client(pieces=[b"gone"]), Client(pieces=[b"patient"])
    tasks = [replica.ask(gone), replica.ask(patient)]
    await settle()
    gone.leave()
    await settle()
    assert replica.door.admission.waiting == 1
    assert tasks[0].done()
    assert gone.answered == []
    replica.engine.go.set()
    await asyncio.gather(first, *tasks)
    assert replica.engine.bodies == [b"{}", b"patient"]
    assert replica.door.admission.running == 0


async def test_engine_receives_disconnect_of_client_admitted_from_queue() -> None:
    """The app must still receive the disconnect, though an earlier task waited for that message."""
    replica = Replica(limit=1)
    reported = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        reported.set()

    replica.door._app = app
    hog = replica.ask(first := Client())
    task = replica.ask(second := Client())
    await settle()
    first.leave()
    await hog
    reported.clear()
    await settle()
    assert not reported.is_set()
    second.leave()
    await task
    assert reported.is_set()
    assert replica.door.admission.running == 0


async def test_cancelled_queued_request_frees_its_queue_slot() -> None:
    replica = Replica(limit=1)
    first = replica.ask(Client())
    second = replica.ask(Client())
    await settle()
    second.cancel()
    await settle()
    assert replica.door.admission.waiting == 0
    replica.engine.go.set()
    await first
    await settle()
    assert (replica.door.admission.running, replica.door.in_progress) == (0, 0)


async def test_buffered_bodies_of_queued_requests_are_bounded() -> None:
    replica = Replica(limit=1)
    replica.door._bodies._free = 10
    first = replica.ask(Client())
    large = Client(pieces=[b"x" * 8] * 4)
    task = replica.ask(large)
    await settle()
    assert large.received == 2, "read until the limit is passed, and no further"
    replica.engine.go.set()
    await asyncio.gather(first, task)
    assert replica.engine.bodies[1] == b"x" * 32
    assert replica.door._bodies._free == 10


async def test_queued_request_returns_425_with_final_503_when_admission_closes() -> None:
    replica = Replica(limit=1)
    first, second = replica.ask(Client()), replica.ask(Client())
    await settle()
    replica.door.admission.close()
    client = await second
    assert (client.status, client.header(FINAL), client.header(b"retry-after")) == (425, [b"503"], [b"1"])
    assert (client.error["code"], client.error["type"]) == ("replica_gone", "server_error")
    replica.engine.go.set()
    await first


async def test_queued_request_is_not_started_after_engine_dies() -> None:
    """A dead engine answers its running requests with errors, which admits the waiting ones."""
    engine, alive = Engine(), True
    door = EngineFront(engine, Admission(lambda: 1, lambda: 9), lambda: alive, engine_alive=lambda: alive)
    first, second = (asyncio.create_task(Client().ask(door)) for _ in range(2))
    await settle()
    alive = False
    engine.go.set()
    assert (await first).status == 200
    client = await second
    assert (client.status, len(engine.scopes)) == (425, 1)
    assert door.admission.running == 0


async def test_new_request_returns_425_if_engine_is_dead() -> None:
    engine = Engine()
    door = EngineFront(engine, Admission(lambda: 1, lambda: 1), lambda: False, engine_alive=lambda: False)
    client = await Client().ask(door)
    assert (client.status, client.header(FINAL), engine.scopes) == (425, [b"503"], [])


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/docs",
        "/openapi.json",
        "/health",
        "/load",
        "/version",
        "/ping",
        "/invocations",
        "/scale_elastic_ep",
        "/is_scaling_elastic_ep",
        "/tokenizer_info",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/v1/chat/completions/render",
        "/v1/chat/completions/batch",
        "/inference/v1/generate",
        "/abort_requests",
        "/collective_rpc",
        "/reset_prefix_cache",
        "/sleep",
        "/start_profile",
        "/server_info",
        "/v1/realtime",
        "/v1/responses/a/b",
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/-/other",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_unlisted_path_returns_404_and_never_reaches_engine(path: str, method: str) -> None:
    replica = Replica()
    replica.engine.go.set()
    client = await Client(path=path, method=method).ask(replica.door)
    assert client.status == 404
    assert client.error["code"] == "not_found"
    assert replica.engine.scopes == []


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/v1/chat/completions", "GET", b"POST"),
        ("/v1/models", "DELETE", b"GET"),
        ("/v1/models/a/b", "POST", b"GET"),
        ("/v1/responses/resp_1/cancel", "GET", b"POST"),
    ],
)
async def test_wrong_method_returns_405_with_allowed_method(path: str, method: str, allowed: bytes) -> None:
    replica = Replica()
    client = await Client(path=path, method=method).ask(replica.door)
    assert (client.status, client.header(b"allow")) == (405, [allowed])
    assert client.error["code"] == "method_not_allowed"


async def test_model_list_metrics_and_own_paths_bypass_admission() -> None:
    replica = Replica(limit=0)
    replica.engine.go.set()
    for path in ("/v1/models", "/v1/models/owner/name", "/metrics"):
        assert (await Client(path=path, method="GET").ask(replica.door)).status == 200
    own = await Client(path="/-/own", method="GET").ask(replica.door)
    assert own.body == b"own"


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/responses/resp_1", "GET"), ("/v1/responses/resp_1/cancel", "POST")]
)
async def test_missing_stored_response_returns_404(path: str, method: str) -> None:
    replica = Replica()
    replica.engine.go.set()
    client = await Client(path=path, method=method).ask(replica.door)
    assert client.status == 404
    assert client.error["code"] == "response_not_found"
    assert "in the memory of the replica" in client.error["message"]
    replica.kept.add("resp_1")
    assert (await Client(path=path, method=method).ask(replica.door)).status == 200


async def test_valid_client_request_id_is_returned() -> None:
    replica = Replica()
    replica.engine.go.set()
    client = await Client(headers=[(b"x-request-id", b"mine-1")]).ask(replica.door)
    assert client.header(b"x-request-id") == [b"mine-1"]


@pytest.mark.parametrize(
    "given", [[], [b"a b"], [b"a" * 129], [b""], [b"one", b"two"], [b"a\x00b"]], ids=range(6)
)
async def test_missing_or_invalid_request_id_is_replaced_for_client_and_engine(given: list[bytes]) -> None:
    replica = Replica()
    replica.engine.go.set()
    client = await Client(headers=[(b"x-request-id", value) for value in given]).ask(replica.door)
    [made] = client.header(b"x-request-id")
    assert made not in given
    assert [value for name, value in replica.engine.scopes[0]["headers"] if name == b"x-request-id"] == [made]


async def test_error_response_has_request_id() -> None:
    client = await Client(path="/docs", headers=[(b"x-request-id", b"mine-2")]).ask(Replica().door)
    assert client.header(b"x-request-id") == [b"mine-2"]


def test_engine_work_paths_accept_only_post() -> None:
    listed = [path for path in paths._POST if paths.asks_the_engine(path)]
    assert listed
    assert {paths.methods(path) for path in listed} == {frozenset({"POST"})}


async def test_only_requests_to_engine_are_logged_when_finished() -> None:
    lines: list[tuple[str, str, int]] = []
    engine = Engine()
    engine.go.set()
    door = EngineFront(
        engine,
        Admission(lambda: 1, lambda: 1),
        lambda: True,
        log=lambda name, path, status, seconds: lines.append((name, path, status)),
    )
    headers = [(b"x-request-id", b"mine")]
    await Client(path="/v1/completions", headers=headers).ask(door)
    await Client(path="/v1/models", method="GET", headers=headers).ask(door)
    await Client(path="/nothing", headers=headers).ask(door)
    assert lines == [("mine", "/v1/completions", 200)]


def test_gateway_and_replica_list_same_engine_paths() -> None:
    named = {*PATHS, *REPLICA_PATHS}
    assert {path for path in named if paths.asks_the_engine(path)} == named
    assert {path for path in paths._POST if path not in named} == set()
