"""One operator acts, one only; an operator that loses the lease ends."""

from collections.abc import Callable
from datetime import UTC, datetime

from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import everything, tiny
from tests.api.operator_process import OperatorProcess

LEASE = "daybreak-operator"
Start = Callable[..., OperatorProcess]


def holder(admin: Admin) -> str:
    """Return the holder of the lease."""
    lease = admin.get("Lease", LEASE) or {}
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def test_second_operator_waits_until_first_operator_stops(admin: Admin, alone: Start) -> None:
    first, second = alone(), alone()
    first.start()
    first.wait_ready()
    second.start()
    eventually("standing by", lambda: "standing by" in second.page("/readyz"))
    assert holder(admin) == "operator-1"
    admin.create(tiny())
    eventually("all objects", lambda: everything(admin))
    assert second.page("/healthz") == "ok"
    assert second.metric("daybreak_reconciles_total") == 0
    assert second.metric("daybreak_leader") == 0

    def leases_only() -> bool:
        # In this order: it asks for the lease again and again.
        leases = second.metric("daybreak_api_requests_total", resource="leases")
        return 0 < leases == second.metric("daybreak_api_requests_total")

    eventually("it asks for its lease only", leases_only)

    assert first.stop() == 0
    second.wait_ready()
    assert holder(admin) == "operator-2"
    admin.delete("Service", "tiny")
    eventually("the second repairs", lambda: admin.get("Service", "tiny"))


def test_second_operator_takes_lease_after_first_is_killed(admin: Admin, alone: Start) -> None:
    first, second = alone(), alone()
    first.start()
    first.wait_ready()
    second.start()
    eventually("standing by", lambda: "standing by" in second.page("/readyz"))
    first.kill()
    second.wait_ready(90)
    assert holder(admin) == "operator-2"


def test_restarted_operator_reacquires_its_own_lease(admin: Admin, alone: Start) -> None:
    first = alone()
    first.start()
    first.wait_ready()
    first.kill()
    first.start()
    first.wait_ready(25)
    assert holder(admin) == "operator-1"


def test_a_lost_lease_ends_the_operator(admin: Admin, alone: Start) -> None:
    first = alone()
    first.start()
    first.wait_ready()
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    admin.merge("Lease", LEASE, {"spec": {"holderIdentity": "somebody-else", "renewTime": now}})
    assert first.wait(40) == 1
    assert "Lost lease" in first.log()
    assert holder(admin) == "somebody-else"


def test_operator_takes_existing_lease_without_holder(admin: Admin, alone: Start) -> None:
    admin.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}})
    first = alone()
    first.start()
    first.wait_ready()
    assert holder(admin) == "operator-1"
    assert first.stop() == 0
    assert holder(admin) == ""
