"""`sleep.afterIdle: Auto` on a real API server; KubeRay, models and gateways are played."""

from typing import Any

import pytest

from tests.api.admin import eventually
from tests.api.objects.sleeper import NAME, Sleeper

pytestmark = pytest.mark.usefixtures("gated")
AUTO = {"afterIdle": "Auto"}
LEARNED: dict[str, Any] = {"pauses": [0.0] * 16 + [20.0], "lastEndTime": "2026-01-01T00:00:00Z"}
"""Twenty pauses of half a day."""
MEASURED = {
    "depth": "Workers",
    "startTime": "2026-01-01T00:00:00Z",
    "seconds": 90,
    "recent": [90],
    "p50Seconds": 90,
    "p95Seconds": 90,
}
TWO_MINUTES = 120.0


def idle(sleeper: Sleeper) -> dict[str, Any]:
    """Return the pauses in the service's status."""
    return dict(sleeper.gates()[0].get("idle") or {})


def knows(sleeper: Sleeper, **gate: Any) -> None:
    """Write this into the status of the gate, which has been open for a month."""
    written = [{**sleeper.gates()[0], "phaseTransitionTime": "2026-01-01T00:00:00Z", **gate}]
    sleeper.admin.merge("LLMService", NAME, {"status": {"gate": {"models": written}}}, "status")


def test_service_sleeps_after_recommended_idle_time(sleeper: Sleeper) -> None:
    sleeper.traffic(idle=TWO_MINUTES, arrivals=5)
    sleeper.awake(sleep=AUTO)
    assert idle(sleeper)["afterIdle"] == "15m"

    knows(sleeper, idle=LEARNED, wake=MEASURED)
    sleeper.reaches("Asleep", "Closed", "Workers")
    found = idle(sleeper)
    assert (found["afterIdle"], found["recommendedAfterIdle"], found["breakEvenSeconds"]) == ("1m", "1m", 90)
    assert "startTime" in found

    # A model that answers at once would be awake before anybody has seen it waking.
    sleeper.silent()
    sleeper.traffic(held=1, arrivals=6)
    sleeper.reaches("Waking", "Closed", None)
    eventually("the pause is counted", lambda: "startTime" not in idle(sleeper))
    assert idle(sleeper)["lastEndTime"] > found["lastEndTime"]
    assert sum(idle(sleeper)["pauses"]) > sum(LEARNED["pauses"])


def test_service_with_long_wake_and_short_pauses_sleeps_later(sleeper: Sleeper) -> None:
    """The traffic of the test above, with a long wake and short pauses."""
    sleeper.traffic(idle=TWO_MINUTES, arrivals=5)
    sleeper.awake(sleep=AUTO)
    short = {**LEARNED, "pauses": [0.0, 0.0, 0.0, 0.0, 40.0]}
    knows(sleeper, idle=short, wake={**MEASURED, "p50Seconds": 300})
    eventually("it has learned", lambda: idle(sleeper).get("recommendedAfterIdle"))
    assert sleeper.gate() == "Open"
    sleeper.traffic(idle=3600.0, arrivals=5)
    sleeper.reaches("Asleep", "Closed", "Workers")
