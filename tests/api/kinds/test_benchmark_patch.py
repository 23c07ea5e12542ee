"""`applyMode: Patch` on the real API server: the best settings reach the LLMService once."""

from typing import Any

from daybreak_runtime.benchmark.run import Course, Gain
from tests.api.admin import Admin, events_with, eventually
from tests.api.objects.benchmarks import TUNE
from tests.api.objects.jobs import benchmark_speaks
from tests.api.operator_process import OperatorProcess
from tests.unit.runtime.benchmark.steps import trial


def service(**args: Any) -> dict[str, Any]:
    """Return a service with one argument that is swept, and one that is not."""
    model = TUNE.spec["model"] | {"engine": {"args": {"max_num_seqs": 64, "max_model_len": 512} | args}}
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "chat", "annotations": {"daybreak.dev/fit-check": "off"}},
        "spec": {"models": [model]},
    }


def arguments(admin: Admin) -> dict[str, Any]:
    """Return the arguments of the service's engine."""
    found: dict[str, Any] = admin.get("LLMService", "chat")["spec"]["models"][0]["engine"]["args"]
    return found


def measured(admin: Admin, best: float, *, certain: bool) -> None:
    """Run a benchmark of the service, which ends with a best."""
    made = admin.create(TUNE.manifest(model=None, serviceRef={"name": "chat"}, applyMode="Patch"))
    eventually("its objects", lambda: TUNE.everything(admin))
    with benchmark_speaks(admin, made["metadata"]["uid"]) as job:
        course = Course([trial({}, 3.0), trial({"max_num_seqs": 4}, best)], stopped="its last was tried")
        job.course(course, Gain(best / 3, 0.02 if certain else 9.0), 0.01)
        assert job.end()


def state(admin: Admin, desired: str) -> dict[str, Any]:
    """Wait until the status of the patch has the desired state, and return that status."""

    def found() -> dict[str, Any] | None:
        patch: dict[str, Any] = TUNE.status(admin).get("patch") or {}
        return patch if patch.get("state") == desired else None

    return eventually(f"state {desired}", found)


def test_better_settings_are_applied_once_and_previous_kept_in_status(
    admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(service())
    measured(admin, 6.0, certain=True)
    patch = state(admin, "RollingOut")
    assert (patch["args"], patch["previousArgs"]) == ({"max_num_seqs": 4}, {"max_num_seqs": 64})
    assert arguments(admin) == {"max_num_seqs": 4, "max_model_len": 512}
    live = admin.get("LLMService", "chat")
    assert patch["generation"] == live["metadata"]["generation"]
    uid = admin.get("LLMBenchmark", "tune")["metadata"]["uid"]
    held = [each for each in live["metadata"]["managedFields"] if each["operation"] == "Apply"]
    assert f"daybreak-benchmark-tune-{uid[:8]}" in {each["manager"] for each in held}
    # What a person sets then stays: it is written once.
    admin.merge("LLMService", "chat", {"spec": {"models": service(max_num_seqs=32)["spec"]["models"]}})
    state(admin, "Overwritten")
    operator.stop()
    operator.start()
    operator.wait_ready()
    admin.merge("LLMBenchmark", "tune", {"metadata": {"labels": {"look": "again"}}})
    assert TUNE.condition(admin, "Applied")["reason"] == "Overwritten"
    assert arguments(admin)["max_num_seqs"] == 32
    events = events_with(admin, "RollingOut", "Overwritten")
    reported = {each["reason"] for each in events if each.get("action") == "Apply"}
    assert {"RollingOut", "Overwritten"} <= reported


def test_settings_within_noise_are_not_applied(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(service())
    measured(admin, 3.01, certain=False)
    assert "not better beyond noise" in state(admin, "NotWritten")["message"]
    assert arguments(admin) == {"max_num_seqs": 64, "max_model_len": 512}
