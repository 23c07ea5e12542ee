"""Claims on accelerators, and the turns that follow from them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.scheduling.claim import Claim, Turn
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.nodes import NodeCapacity, capacity
from daybreak.scheduling.turns import turns
from tests.unit.llmservice.decide.scenes.services import node

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"


def ago(seconds: float) -> datetime:
    """Return a time in the past."""
    return NOW - timedelta(seconds=seconds)


def waiter(owner: str, *, waited: float = 60, devices: int = 1, **more: Any) -> Claim:
    """Return the claim of a model whose pods cannot be scheduled."""
    common: dict[str, Any] = {"since": ago(waited), "no_room_since": ago(waited), "requested": True, **more}
    return Claim(f"default/{owner}", "m", GPU, devices=devices, waits=True, **common)


def holder(owner: str, idle: float | None, **holds: int) -> Claim:
    """Return the claim of an awake model, idle for `idle` seconds; None: it is busy."""
    since = None if idle is None else ago(idle)
    return Claim(f"default/{owner}", "m", GPU, ago(3600), 1, holds=holds, yields_at=since)


def places(**gpus: int) -> list[NodeCapacity]:
    """Return the capacity of nodes by name, with the given number of GPUs each."""
    return [capacity(node(name, gpus=count)) for name, count in gpus.items()]


def decided(*claims: Claim, nodes: list[NodeCapacity] | None = None) -> dict[str, Turn]:
    """Return the turns by workload name."""
    found = turns(claims, Fleet(nodes if nodes is not None else places(a=1)), NOW)
    return {owner.removeprefix("default/"): turn for (owner, _), turn in found.items()}


def gives_way(found: dict[str, Turn]) -> dict[str, str]:
    """Return the yielding workloads, with the workload that each yields to."""
    return {owner: turn.gives_way_to for owner, turn in found.items() if turn.gives_way_to}


def lost(owner: str, *, busy: bool = True, **holds: int) -> Claim:
    """Return the claim of an awake model that has lost pods, and whose new pods cannot be scheduled."""
    awake = holder(owner, None if busy else 60, **holds)
    return replace(awake, lost=True, no_room_since=ago(60))


def batch(owner: str, *, ran: float | None = None, **more: Any) -> Claim:
    """Return the claim of a batch that has run for `ran` seconds; None: it waits."""
    if ran is None:
        return waiter(owner, background=True, requested=False, **more)
    return replace(holder(owner, ran, **more), background=True)
