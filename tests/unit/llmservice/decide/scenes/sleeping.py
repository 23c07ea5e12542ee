"""A service behind a gateway that starts and falls asleep, for the tests of sleep and wake."""

from datetime import timedelta
from typing import Any

from daybreak.api.gates.gate_status import WakeStatus
from daybreak.gates.traffic import Traffic
from daybreak.workloads.observed import GatewayView
from tests.unit.llmservice.decide.scenes.services import (
    GPU_MODEL,
    HEAD,
    WORKER,
    Manifest,
    World,
    conditions,
    manifest,
    node,
    running,
)
from tests.unit.llmservice.decision import Decision

BIG_MODEL = {**GPU_MODEL, "name": "tiny"}
NO_GPU = (node(),)
"""Nodes that remain when the GPU nodes are gone."""
LONG = 10_000.0
"""Idle time in seconds after which every service may sleep."""


MODELS = ("tiny", "other", "qwen", "small")
"""Every model of these tests."""


def view(**traffic: Any) -> GatewayView:
    """Return the view of gateways that have applied every decision."""
    every = Traffic(known=True, **{"acknowledged": 2**53, "routed": True, **traffic})
    return GatewayView(20001, dict.fromkeys(MODELS, every))


IDLE = view(idle=timedelta(hours=3))


def up(*models: Manifest, **spec: Any) -> World:
    """Return a service whose gate is open."""
    world = World(manifest(*models, **{"sleep": {"afterIdle": "10m"}, **spec}), gateway=view())
    first = world.step()
    assert gate(first) == ("Waking", "Closed", None)
    opened = world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(opened) == ("Awake", "Open", None)
    assert conditions(opened)["Ready"] == "True/Serving"
    return world


def gate(decision: Decision) -> tuple[str | None, str | None, str | None]:
    """Return the decided phase, gate of the first model, and depth."""
    status = decision.status
    gates = status.gate.models if status.gate else ()
    return status.phase, gates[0].state if gates else None, status.sleep_depth


def wake(decision: Decision) -> WakeStatus | None:
    """Return the history of the first model's wakes."""
    assert decision.status.gate is not None
    return decision.status.gate.models[0].wake


def asleep(*models: Manifest, **spec: Any) -> World:
    """Return a sleeping service."""
    world = up(*models, **spec)
    drained = world.step(after=LONG, gateway=IDLE)
    assert gate(drained) == ("Draining", "Closed", None)
    assert conditions(drained)["Ready"] == "True/Serving"
    assert world.step().status.sleep_depth is not None
    return world
