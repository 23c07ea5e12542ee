"""The steps of a wake, derived from pods and the Serve status."""

from daybreak.api.gates.gate_status import WakePhases
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.decide.wake_timeline import wake_timeline
from tests.unit.llmservice.decide.scenes.services import CPU_MODEL, GPU_MODEL, OTHER_MODEL, START
from tests.unit.llmservice.decide.scenes.waking import made, snapshot

HEAD = made("head", None, created=-900, scheduled=-900, ready=-880)
UP = made("one", "tiny", created=1, scheduled=2, ready=40)
OTHER_UP = made("two", "other", created=1, scheduled=3, ready=50)
TWO_STAGES = {**GPU_MODEL, "name": "tiny", "parallelism": {"pipeline": 2}}


def read(observed: Snapshot, before: WakePhases | None = None) -> dict[str, int] | None:
    """Return the completed steps of the first model."""
    found = wake_timeline(observed, observed.service.spec.models[0], START, before)
    return None if found is None else found.model_dump(exclude_none=True)


def test_timeline_is_empty_before_new_cluster_exists() -> None:
    assert read(snapshot()) is None
    assert read(snapshot(HEAD, leaving=True)) is None, "the head of a cluster that goes is none"


def test_engine_is_started_if_serve_is_healthy_with_current_generation() -> None:
    worker = {"objects": 0, "head_ready": 0, "worker_scheduled": 2, "worker_ready": 40}
    assert read(snapshot(HEAD, UP, seconds=60)) == {**worker, "engine_started": 60}
    assert read(snapshot(HEAD, UP, seconds=60, serve="UPSCALING")) == worker
    assert read(snapshot(HEAD, UP, seconds=60, observed=False)) == worker


def test_timeline_includes_pods_of_pending_cluster() -> None:
    head = made("head", None, created=3, scheduled=4, ready=20)
    assert read(snapshot(head, UP, seconds=60, pending=True)) == {
        "objects": 3,
        "head_ready": 20,
        "worker_scheduled": 2,
        "worker_ready": 40,
        "engine_started": 60,
    }


def test_healthy_serve_status_without_worker_is_no_engine_start() -> None:
    assert read(snapshot(HEAD)) == {"objects": 0, "head_ready": 0}
    pending = made("one", "tiny", created=1, scheduled=None, ready=None, placed=False)
    assert read(snapshot(HEAD, pending)) == {"objects": 0, "head_ready": 0}


def test_engine_start_is_not_recorded_in_first_seconds_of_wake() -> None:
    old = made("one", "tiny", created=-90, scheduled=-80, ready=-60)
    assert read(snapshot(HEAD, old, seconds=3)) == {
        "objects": 0,
        "head_ready": 0,
        "worker_scheduled": 0,
        "worker_ready": 0,
    }


def test_timeline_is_unchanged_after_engine_has_started() -> None:
    done = WakePhases(objects=0, worker_scheduled=2, worker_ready=40, engine_started=60)
    again = made("one", "tiny", created=1, scheduled=2, ready=70)
    assert read(snapshot(HEAD, again, seconds=80), done) == done.model_dump(exclude_none=True)


def test_steps_of_deleted_pod_remain_until_next_pod_replaces_them() -> None:
    done = WakePhases(objects=0, head_ready=0, worker_scheduled=0, worker_ready=0)
    assert read(snapshot(HEAD, serve="UPDATING"), done) == done.model_dump(exclude_none=True)
    assert read(snapshot(HEAD, UP, seconds=45, serve="UPDATING"), done) == {
        "objects": 0,
        "head_ready": 0,
        "worker_scheduled": 2,
        "worker_ready": 40,
    }


def test_timeline_ignores_pods_of_other_models() -> None:
    both = (CPU_MODEL, OTHER_MODEL)
    assert read(snapshot(HEAD, OTHER_UP, models=both)) == {"objects": 0, "head_ready": 0}
    found = read(snapshot(HEAD, UP, models=both))
    assert found is not None
    assert (found["worker_ready"], found["engine_started"]) == (40, 90)


def test_worker_steps_of_two_pod_replica_need_both_pods() -> None:
    second = made("two", "tiny", created=1, scheduled=4, ready=44)
    third = made("three", "tiny", created=60, scheduled=61, ready=80)
    assert read(snapshot(HEAD, UP, models=(TWO_STAGES,))) == {"objects": 0, "head_ready": 0}
    found = read(snapshot(HEAD, UP, second, third, models=(TWO_STAGES,)))
    assert found is not None
    assert (found["worker_scheduled"], found["worker_ready"]) == (4, 44)
