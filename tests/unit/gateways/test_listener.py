"""The operator listens to a gateway that streams lines over HTTP."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from daybreak.gateways import listener as module
from daybreak.gateways.listener import LINE_LIMIT, GatewayListener
from tests.unit.waiting import until

SECONDS = 20.0
REPORT = {"epoch": 1, "gate": "open", "arrivals": 0, "held": 0, "in_flight": 0, "idle_ms": 0, "servers_up": 1}


class Stream:
    """Fake of a gateway's stream, which sends preset reports to every listener."""

    def __init__(self) -> None:
        self.listeners: list[asyncio.Queue[str | None]] = []
        self.status = 200
        self.requested = 0

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve the connection of one listener."""
        self.requested += 1
        answer = web.StreamResponse(status=self.status)
        await answer.prepare(request)
        if self.status != 200:
            return answer
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        self.listeners.append(lines)
        while (line := await lines.get()) is not None:
            await answer.write(line.encode())
        return answer

    def write(
        self, *, boot: str = "1", full: bool = True, short: bool = False, **services: dict[str, Any]
    ) -> None:
        """Send one line."""
        rows = {f"{name}/m": {**REPORT, **row} for name, row in services.items()}
        self.raw(json.dumps({"boot": boot, "full": full, "services": rows, "short": short}) + "\n")

    def raw(self, text: str) -> None:
        """Send some bytes."""
        for lines in self.listeners:
            lines.put_nowait(text)

    def hang_up(self) -> None:
        """End every connection."""
        for lines in self.listeners:
            lines.put_nowait(None)
        self.listeners.clear()


@pytest.fixture
async def stream() -> Stream:
    """Return the fake gateway stream."""
    return Stream()


@pytest.fixture
async def url(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Return the address of the stream."""
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.02, 0.1))
    application = web.Application()
    application.router.add_get("/state", stream.serve)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/state"
    stream.hang_up()
    await runner.cleanup()


@pytest.fixture
def reported() -> list[set[str] | None]:
    """Return the list in which the listener's callbacks are recorded."""
    return []


@pytest.fixture
async def listener(url: str, reported: list[set[str] | None]) -> AsyncIterator[GatewayListener]:
    """Return the listener of the stream."""
    async with aiohttp.ClientSession(read_bufsize=LINE_LIMIT) as session:
        listening = GatewayListener(url, session, reported.append)
        yield listening
        await listening.close()


async def receive(stream: Stream, listener: GatewayListener, **services: Any) -> None:
    """Send one report, and wait until the listener has received it."""
    await until(lambda: stream.listeners)
    stream.write(**services)
    await until(lambda: listener.received)


def held(listener: GatewayListener, service: str) -> int | None:
    """Return the last reported number of held requests for model m of the service, or None."""
    observed = (listener.observed(service) or {}).get("m")
    return observed.report.held if observed else None


async def test_gateway_is_observed_after_its_first_line(
    stream: Stream, listener: GatewayListener, reported: list[set[str] | None]
) -> None:
    assert listener.observed("a") is None
    await receive(stream, listener, a={"held": 2})
    assert held(listener, "a") == 2
    assert listener.observed("b") == {}
    assert reported == [None]
    assert listener.tried.is_set()


async def test_unrouted_time_grows_until_a_server_is_up(stream: Stream, listener: GatewayListener) -> None:
    def unrouted() -> timedelta:
        return (listener.observed("a") or {})["m"].unrouted

    await receive(stream, listener, a={"servers_up": 0})
    await until(lambda: unrouted() > timedelta(seconds=0.05))
    stream.write(full=False, a={"servers_up": 0, "held": 1})
    await until(lambda: held(listener, "a") == 1)
    assert unrouted() > timedelta(seconds=0.05), "what else it says does not begin it anew"
    stream.write(full=False, a={"servers_up": 1})
    await until(lambda: not unrouted())
    began = time.monotonic()
    stream.write(full=False, a={"servers_up": 0, "held": 2})
    await until(lambda: held(listener, "a") == 2)
    assert timedelta(0) < unrouted() <= timedelta(seconds=time.monotonic() - began)


async def test_only_relevant_changes_cause_callback(
    stream: Stream, listener: GatewayListener, reported: list[set[str] | None]
) -> None:
    await receive(stream, listener, a={}, b={})
    stream.write(full=False, a={"in_flight": 3, "arrivals": 3})
    stream.write(full=False, a={"held": 1}, b={})
    stream.write(full=False, a={"held": 7}, b={"epoch": 2})
    stream.write(full=False, b={"epoch": 2, "gate": "closed", "in_flight": 1})
    stream.write(full=False, b={"epoch": 2, "gate": "closed", "in_flight": 0})
    await until(lambda: len(reported) == 5)
    assert reported == [None, {"a"}, {"b"}, {"b"}, {"b"}]
    assert held(listener, "a") == 7


async def test_change_of_nearly_full_state_causes_one_callback(
    stream: Stream, listener: GatewayListener
) -> None:
    changes: list[bool] = []
    listener.on_short = lambda: changes.append(listener.short)
    await receive(stream, listener, a={})
    for short in (False, True, True, False, True):
        stream.write(full=False, short=short, a={})
    stream.write(full=False, short=True, a={"held": 1})
    await until(lambda: held(listener, "a") == 1)
    assert changes == [True, False, True]


async def test_change_of_policy_enforcement_causes_callback(
    stream: Stream, listener: GatewayListener
) -> None:
    changes: list[bool | None] = []
    listener.on_enforced = lambda: changes.append(listener.enforced)
    await receive(stream, listener, a={})
    for enforced in (None, False, None, False, True):
        known = {} if enforced is None else {"enforced": enforced}
        stream.raw(json.dumps({"boot": "1", "full": False, "services": {}, **known}) + "\n")
    stream.write(full=False, a={"held": 1})
    await until(lambda: held(listener, "a") == 1)
    assert changes == [False, True]


def pause(listener: GatewayListener) -> float | None:
    """Return the length of the last pause that the listener recorded, in seconds, or None."""
    found = (listener.observed("a") or {})["m"].pause
    return None if found is None else found.length.total_seconds()


async def test_end_of_long_pause_causes_callback(
    stream: Stream, listener: GatewayListener, reported: list[set[str] | None]
) -> None:
    await receive(stream, listener, a={"arrivals": 1, "idle_ms": 300_000})
    stream.write(full=False, a={"arrivals": 2, "in_flight": 1})
    await until(lambda: len(reported) == 2)
    assert reported == [None, {"a"}]
    assert pause(listener) == pytest.approx(300, abs=SECONDS)
    stream.write(full=False, a={"arrivals": 3, "idle_ms": 200})
    stream.write(full=False, a={"arrivals": 3, "held": 1})
    await until(lambda: held(listener, "a") == 1)
    assert pause(listener) == pytest.approx(300, abs=SECONDS), "it stays the last one"


@pytest.mark.parametrize(
    ("before", "line"),
    [
        pytest.param({"idle_ms": 50_000}, {"full": False, "arrivals": 9}, id="too short"),
        pytest.param({"idle_ms": 300_000}, {"full": False}, id="nobody came"),
        pytest.param({"idle_ms": 300_000, "in_flight": 1}, {"full": False, "arrivals": 9}, id="a stream"),
        pytest.param({"idle_ms": 300_000}, {"full": True, "arrivals": 9}, id="not heard in between"),
        pytest.param({"idle_ms": 300_000}, {"boot": "2", "arrivals": 9}, id="HAProxy started anew"),
    ],
)
async def test_short_or_uncertain_pause_is_not_recorded(
    stream: Stream, listener: GatewayListener, before: dict[str, Any], line: dict[str, Any]
) -> None:
    await receive(stream, listener, a=before)
    about = {"full": False, "arrivals": 0, **line}
    stream.write(
        boot=about.get("boot", "1"), full=about["full"], a={"arrivals": about["arrivals"], "servers_up": 7}
    )
    await until(lambda: (listener.observed("a") or {})["m"].report.servers_up == 7)
    assert pause(listener) is None


async def test_full_line_removes_missing_services(stream: Stream, listener: GatewayListener) -> None:
    await receive(stream, listener, a={}, b={})
    stream.write(full=False, b={"held": 1})
    await until(lambda: held(listener, "b") == 1)
    assert held(listener, "a") == 0
    stream.write(b={"held": 2})
    await until(lambda: held(listener, "b") == 2)
    assert listener.observed("a") == {}


async def test_removed_gate_causes_callback(
    stream: Stream, listener: GatewayListener, reported: list[set[str] | None]
) -> None:
    await until(lambda: stream.listeners)
    for gates in ({"a": REPORT, "a/m": REPORT, "b/m": REPORT}, {"a/m": REPORT, "b/m": REPORT}):
        stream.raw(json.dumps({"boot": "1", "full": True, "services": gates}) + "\n")
    await until(lambda: len(reported) == 2)
    assert reported == [None, {"a"}]
    assert list(listener.observed("a") or {}) == ["m"]


async def test_new_boot_discards_previous_reports(stream: Stream, listener: GatewayListener) -> None:
    await receive(stream, listener, a={"held": 4}, b={"held": 4})
    stream.write(boot="2", full=False, b={"held": 0})
    await until(lambda: held(listener, "b") == 0)
    assert listener.observed("a") == {}


async def test_silent_gateway_is_dropped_and_connected_again(
    stream: Stream,
    listener: GatewayListener,
    reported: list[set[str] | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.2)
    stream.hang_up()
    await until(lambda: stream.listeners)
    stream.hang_up()  # the next connection knows the shorter silence
    await until(lambda: stream.listeners)
    stream.write(a={})
    await until(lambda: listener.received)
    await until(lambda: not listener.received)
    assert listener.observed("a") is None
    assert reported[-1] is None
    requested = stream.requested
    await until(lambda: stream.requested > requested)
    stream.write(a={"held": 3})
    await until(lambda: held(listener, "a") == 3)


@pytest.mark.parametrize("line", ["no JSON\n", "[]]\n"])
async def test_invalid_line_ends_connection_and_listener_reconnects(
    line: str, stream: Stream, listener: GatewayListener, reported: list[set[str] | None]
) -> None:
    await receive(stream, listener, a={})
    stream.raw(line)
    await until(lambda: not listener.received)
    stream.listeners.clear()
    await receive(stream, listener, a={"held": 1})
    assert reported == [None, None, None]


async def test_incomplete_last_line_is_ignored_and_listener_reconnects(
    stream: Stream, listener: GatewayListener, reported: list[set[str] | None]
) -> None:
    await receive(stream, listener, a={})
    stream.raw('{"boot": "2", "full": true, "short": true, "services": {"a/m": {"hel')
    stream.hang_up()
    await until(lambda: not listener.received)
    assert not listener.short
    assert listener.observed("a") is None
    await receive(stream, listener, a={"held": 1})
    assert reported == [None, None, None], "connected, lost and connected"


async def test_gateway_that_answers_503_is_retried_and_not_observed(
    stream: Stream, listener: GatewayListener
) -> None:
    stream.status = 503
    stream.hang_up()
    await until(lambda: stream.requested >= 3)
    assert listener.tried.is_set()
    assert not listener.received


async def test_listener_does_not_follow_redirect(
    url: str, stream: Stream, reported: list[set[str] | None]
) -> None:
    """A pod that poses as a gateway must not redirect the operator to an address of its choice."""
    visited = led = 0

    async def elsewhere(_: web.Request) -> web.Response:
        nonlocal visited
        visited += 1
        return web.Response(text=json.dumps({"boot": "1", "full": True, "services": {"a/m": REPORT}}) + "\n")

    async def lead(_: web.Request) -> web.Response:
        nonlocal led
        led += 1
        raise web.HTTPTemporaryRedirect("/elsewhere")

    application = web.Application()
    application.router.add_get("/elsewhere", elsewhere)
    application.router.add_get("/state", lead)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(read_bufsize=LINE_LIMIT) as session:
        listening = GatewayListener(
            f"http://127.0.0.1:{runner.addresses[0][1]}/state", session, reported.append
        )
        await until(lambda: led >= 2)
        await listening.close()
    await runner.cleanup()
    assert (visited, reported) == (0, [])


async def test_report_with_too_many_gates_ends_connection(
    stream: Stream, listener: GatewayListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_GATES", 50)
    await receive(stream, listener, real={})
    for number in range(0, 200, 10):
        rows = {f"made-up-{each}/m": REPORT for each in range(number, number + 10)}
        stream.raw(json.dumps({"boot": "1", "full": False, "services": rows}) + "\n")
    await until(lambda: not listener.received)
    assert listener.kept == 0
    # The listener reconnects, and accepts reports while they keep within bounds.
    stream.listeners.clear()
    await receive(stream, listener, real={"held": 1})
    assert listener.kept == 1


async def test_gateway_without_proven_identity_is_not_observed(
    url: str, stream: Stream, reported: list[set[str] | None]
) -> None:
    shown: list[str] = []
    proven = False

    async def prove(token: str) -> bool:
        shown.append(token)
        return proven

    async with aiohttp.ClientSession(read_bufsize=LINE_LIMIT) as session:
        listening = GatewayListener(url, session, reported.append, prove)
        await until(lambda: len(shown) >= 2)
        stream.write(a={"held": 1})
        assert not listening.received
        proven = True
        stream.listeners.clear()
        await receive(stream, listening, a={"held": 2})
        await listening.close()
    assert held(listening, "a") == 2
    assert set(shown) == {""}


async def test_route_tallies_are_kept_for_last_four_boots(stream: Stream, listener: GatewayListener) -> None:
    news: list[bool] = []
    listener.on_tallies = lambda: news.append(True)
    await until(lambda: stream.listeners)
    row = {"since": "t", "ways": {"one/a": [1, 1, 0, {}, {}]}}
    lines = [("1", {"chat": row}), ("1", None), ("1", {"chat": row}), *((str(n), {}) for n in range(2, 8))]
    for number, (boot, routes) in enumerate(lines, 1):
        line: dict[str, Any] = {
            "boot": boot,
            "full": True,
            "services": {"mark/m": {**REPORT, "held": number}},
        }
        stream.raw(json.dumps(line | ({"routes": routes} if routes is not None else {})) + "\n")
        await until(lambda number=number: held(listener, "mark") == number)  # type: ignore[misc]
        if boot == "1":
            assert listener.tallies["1"]["chat"].backends["one/a"].sent == 1
            assert len(news) == 1, "what is told again is no news"
    assert list(listener.tallies) == ["4", "5", "6", "7"]
