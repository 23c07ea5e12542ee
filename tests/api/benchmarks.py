"""The LLMBenchmark of the API tests, and how to look at it."""

from typing import Any

from tests.api.admin import Admin, eventually

OBJECTS = {
    "ServiceAccount": "benchmark.tune-sa",
    "NetworkPolicy": "benchmark.tune-ray",
    "Job": "tune-benchmark",
}
SPEC: dict[str, Any] = {
    "model": {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}},
    "load": {"clients": [8]},
    "sweep": [{"argument": "max_num_seqs", "values": [1, 2, 4]}],
}


def tune(**spec: Any) -> dict[str, Any]:
    """A benchmark; None leaves a field out."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMBenchmark",
        "metadata": {"name": "tune"},
        "spec": {name: value for name, value in (SPEC | spec).items() if value is not None},
    }


def everything(admin: Admin) -> dict[str, Any] | None:
    """The owned objects, when all are there."""
    found = {kind: admin.get(kind, name) for kind, name in OBJECTS.items()}
    return found if all(found.values()) else None


def status(admin: Admin) -> dict[str, Any]:
    """What the operator says."""
    found: dict[str, Any] = (admin.get("LLMBenchmark", "tune") or {}).get("status") or {}
    return found


def phase(admin: Admin, wanted: str) -> dict[str, Any]:
    """The status, when it has that phase."""
    return eventually(
        f"phase {wanted}", lambda: found if (found := status(admin)).get("phase") == wanted else None
    )


def condition(admin: Admin, kind: str) -> dict[str, Any]:
    """A condition; empty when it is not there."""
    return next((each for each in status(admin).get("conditions", ()) if each["type"] == kind), {})
