"""A service behind a gateway that comes up and falls asleep, for the tests of sleep and wake."""

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
"""What is left when the nodes with GPUs have gone."""
LONG = 10_000.0
"""Seconds after which every service may sleep that nobody has asked."""


MODELS = ("tiny", "other", "qwen", "small")
"""Every model of these tests."""


def view(**traffic: Any) -> GatewayView:
    """Gateways that have carried out whatever is decided."""
    every = Traffic(known=True, **{"acknowledged": 2**53, "routed": True, **traffic})
    return GatewayView(20001, dict.fromkeys(MODELS, every))


IDLE = view(idle=timedelta(hours=3))


def up(*models: Manifest, **spec: Any) -> World:
    """A service whose gate is open."""
    world = World(manifest(*models, **{"sleep": {"afterIdle": "10m"}, **spec}), gateway=view())
    first = world.step()
    assert gate(first) == ("Waking", "Closed", None)
    opened = world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(opened) == ("Awake", "Open", None)
    assert conditions(opened)["Ready"] == "True/Serving"
    return world


def gate(decision: Decision) -> tuple[str | None, str | None, str | None]:
    """Phase, gate of the first model and depth that a decision says."""
    status = decision.status
    gates = status.gate.models if status.gate else ()
    return status.phase, gates[0].state if gates else None, status.sleep_depth


def wake(decision: Decision) -> WakeStatus | None:
    """The history of the first model's wakes."""
    assert decision.status.gate is not None
    return decision.status.gate.models[0].wake


def asleep(*models: Manifest, **spec: Any) -> World:
    """A service that sleeps."""
    world = up(*models, **spec)
    drained = world.step(after=LONG, gateway=IDLE)
    assert gate(drained) == ("Draining", "Closed", None)
    assert conditions(drained)["Ready"] == "True/Serving"
    assert world.step().status.sleep_depth is not None
    return world
