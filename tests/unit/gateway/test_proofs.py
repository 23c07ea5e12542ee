"""Proofs that replicas check request bodies, and the settings that HAProxy gets from them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from daybreak.gateway.agent import proofs as module
from daybreak.gateway.agent.proofs import Proofs, with_guard
from daybreak.gateway.desired.gates import DesiredGate
from daybreak.gateway.fields import fields
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.fake_serve import FakeServe
from tests.gateway.ports import free_ports
from tests.gateway.replica_front import ReplicaDoor
from tests.unit.waiting import until

SLOT = Slot("qwen", Gate.OPEN, 1, "big", replicas_listen=True)
PROXY = Server("10.0.0.1", 8000, backup=True)


def replica(number: int) -> Server:
    """Return a replica by its number."""
    return Server(f"10.0.1.{number}", 8100, pod=f"uid-{number}")


class GivenProofs(Proofs):
    """Proofs with given results."""

    def __init__(self, *found: bool | None) -> None:
        super().__init__(lambda name: None)
        self.found = found

    def of(self, server: Server) -> bool | None:
        """Return the result by the replica's number."""
        return self.found[int(server.host.rpartition(".")[2])]


GUARDED = replace(SLOT, guarded=True, check=fields.guard_path())


@pytest.mark.parametrize(
    ("found", "before", "guarded"),
    [
        ((True, True), None, True),
        ((True, None), None, False),
        ((True, None), SLOT, False),
        ((True, None), GUARDED, True),
        ((None,), GUARDED, True),
        ((), GUARDED, True),
        ((True, False), GUARDED, False),
        ((False,), None, False),
        ((None,), None, False),
        ((), SLOT, False),
        ((), None, False),
    ],
)
def test_gate_is_guarded_if_all_replicas_check_bodies(
    found: tuple[bool | None, ...], before: Slot | None, guarded: bool
) -> None:
    replicas = tuple(replica(number) for number in range(len(found)))
    gate = DesiredGate(SLOT, (*replicas, PROXY))
    expected = DesiredGate(GUARDED, replicas) if guarded else gate
    assert with_guard(gate, GivenProofs(*found), before) == expected


@pytest.mark.parametrize(
    ("found", "guarded"),
    [
        ((True, None), True),
        ((None, True, None, True), True),
        ((None, True, None, None), False),
        ((True, False), False),
        ((None, None), False),
        ((True, None, None), False),
    ],
)
def test_pipeline_gate_is_guarded_if_one_pod_per_replica_checks_bodies(
    found: tuple[bool | None, ...], guarded: bool
) -> None:
    replicas = tuple(replica(number) for number in range(len(found)))
    gate = DesiredGate(SLOT, (*replicas, PROXY), pods=2)
    expected = DesiredGate(GUARDED, replicas, pods=2) if guarded else gate
    assert with_guard(gate, GivenProofs(*found), None) == expected


@pytest.mark.parametrize(
    "more",
    [{"extra": ("priority",)}, {"paths": "any"}, {"check": "/health"}, {"replicas_listen": False}],
)
def test_gate_that_replicas_cannot_check_is_not_guarded(more: dict[str, Any]) -> None:
    gate = DesiredGate(replace(SLOT, **more), (replica(0), PROXY))
    assert with_guard(gate, GivenProofs(True), GUARDED) == gate


class GivenAnswers:
    """Given answers of a probe, one after the other; then None."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)
        self.requested: list[str] = []

    async def __call__(self, host: str, port: int) -> bool | None:
        """Return the next answer."""
        self.requested.append(host)
        return self.answers.pop(0) if self.answers else None


async def running(
    ask: Callable[[str, int], Awaitable[bool | None]], changed: list[str]
) -> tuple[Proofs, "asyncio.Task[None]"]:
    """Return proofs that query replicas with a function, and their running task."""
    proofs = Proofs(changed.append, ask)
    return proofs, asyncio.create_task(proofs.run())


async def test_replica_is_probed_until_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ASK_SECONDS", 0.01)
    changed: list[str] = []
    ask = GivenAnswers(None, None, True)
    proofs, task = await running(ask, changed)
    proofs.watch("qwen", [DesiredGate(SLOT, (replica(1), PROXY))])
    await until(lambda: changed == ["qwen"])
    assert proofs.of(replica(1)) is True
    await asyncio.sleep(0.05)
    assert ask.requested == ["10.0.1.1"] * 3
    # Another pod with the same address.
    other = replace(replica(1), pod="another")
    proofs.watch("qwen", [DesiredGate(SLOT, (other,))])
    await until(lambda: len(ask.requested) > 4)
    assert proofs.of(other) is None
    proofs.watch("qwen", ())
    assert proofs.of(replica(1)) is None
    task.cancel()


def test_unanswered_probes_are_repeated_at_growing_intervals() -> None:
    requested = [number for number in range(1, 100) if module._due(number)]
    assert requested == [1, 2, 4, 8, 16, 32, 48, 64, 80, 96]


async def test_probe_reports_whether_server_checks_bodies() -> None:
    async with ReplicaDoor() as ours, FakeServe() as other:
        assert await module._ask(ours.address.host, ours.address.port) is True
        assert await module._ask(other.address.host, other.address.port) is False
        ours.dead = True
        assert await module._ask(ours.address.host, ours.address.port) is None
    assert await module._ask("127.0.0.1", free_ports(1)) is None
