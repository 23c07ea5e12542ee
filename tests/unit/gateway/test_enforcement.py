"""Enforcement of network policies: a gateway that reaches a forbidden port proves that there is none."""

import asyncio
from collections.abc import Callable

import pytest

from daybreak.gateway.agent import enforcement
from daybreak.gateway.agent.enforcement import EnforcementWatch, connect
from daybreak.ray import ports


def failing(error: OSError) -> Callable[[str, int], asyncio.Future[None]]:
    async def tried(host: str, port: int) -> None:
        raise error

    return lambda host, port: asyncio.ensure_future(tried(host, port))


def read_report(watch: EnforcementWatch) -> list[float]:
    return [metric.samples[0].value for metric in watch.collect()]


def test_forbidden_port_is_the_dashboard_of_a_ray_head() -> None:
    assert enforcement.FORBIDDEN_PORT == ports.DASHBOARD


async def test_enforcement_is_unknown_without_ray_head() -> None:
    watch = EnforcementWatch(list)
    await watch.look()
    assert (watch.enforced, read_report(watch)) == (None, [])


async def test_reached_forbidden_port_is_reported_as_not_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requested.append("here")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    monkeypatch.setattr(enforcement, "FORBIDDEN_PORT", server.sockets[0].getsockname()[1])
    watch = EnforcementWatch(lambda: ["127.0.0.1"], connect)
    await watch.look()
    assert (watch.enforced, read_report(watch)) == (False, [0.0])
    assert requested == ["here"]
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("before", [None, True, False])
async def test_refused_connection_leaves_enforcement_unchanged(before: bool | None) -> None:
    """The pod can refuse a connection, and so can a policy that rejects instead of dropping."""
    watch = EnforcementWatch(lambda: ["10.0.0.1"], failing(ConnectionRefusedError()))
    watch.enforced = before
    await watch.look()
    assert watch.enforced is before


@pytest.mark.parametrize("error", [TimeoutError(), OSError(113, "No route to host"), PermissionError()])
async def test_timeout_or_network_error_is_reported_as_enforced(error: OSError) -> None:
    watch = EnforcementWatch(lambda: ["10.0.0.2", "10.0.0.1"], failing(error))
    await watch.look()
    assert (watch.enforced, read_report(watch)) == (True, [1.0])


async def test_unanswered_connection_times_out_and_is_reported_as_enforced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enforcement, "CONNECT_SECONDS", 0.05)

    async def silent(host: str, port: int) -> None:
        await asyncio.Event().wait()

    watch = EnforcementWatch(lambda: ["10.0.0.1"], silent)
    async with asyncio.timeout(5):
        await watch.look()
    assert watch.enforced is True
