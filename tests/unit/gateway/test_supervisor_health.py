"""The health that a gateway reports to the kubelet, regardless of the state of its agent."""

from typing import Any

from daybreak.gateway.supervisor.health import ALONE_SECONDS, SAID_SECONDS, Health


def read_message(unready: str = "", unhealthy: str = "") -> dict[str, Any]:
    return {"unready": unready, "unhealthy": unhealthy}


def test_gateway_is_not_ready_before_haproxy_is_programmed() -> None:
    health = Health()
    assert (health.unready, health.unhealthy) == ("the agent has not started", "")
    health.beat(read_message("programming HAProxy"))
    assert (health.unready, health.unhealthy) == ("programming HAProxy", "")
    health.beat(read_message())
    assert (health.unready, health.unhealthy) == ("", "")


def test_gateway_stays_ready_while_agent_is_replaced() -> None:
    now = 0.0
    health = Health(lambda: now)
    health.beat(read_message())
    now = ALONE_SECONDS - 1
    assert health.unready == ""
    health.beat(read_message("reading what is in the cluster"))
    now = ALONE_SECONDS + 1
    assert health.unready == ""
    now = 2 * ALONE_SECONDS
    assert health.unready == "the agent has not worked for 60 s"
    assert health.unhealthy == ""


def test_gateway_is_unhealthy_while_haproxy_does_not_answer() -> None:
    now = 0.0
    health = Health(lambda: now)
    health.beat(read_message())
    health.beat(read_message("HAProxy has not answered", "HAProxy has not answered"))
    assert (health.unready, health.unhealthy) == ("HAProxy has not answered", "HAProxy has not answered")
    # The agent that reported this has ended, and the next agent checks again.
    now = SAID_SECONDS + 1
    assert (health.unready, health.unhealthy) == ("", "")


def test_draining_gateway_is_unready_but_healthy() -> None:
    health = Health()
    health.beat(read_message("", "HAProxy has not answered"))
    health.draining = True
    assert (health.unready, health.unhealthy) == ("draining", "")
