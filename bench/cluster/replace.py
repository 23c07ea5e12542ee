"""Updates that need new pods, under load, compared with KubeRay's own

Daybreak's service is the tiny sample. It uses `rollout.strategy: Replace` if the node has capacity for one
worker, and `BlueGreen` if it has capacity for two. KubeRay's service is the RayService that Daybreak creates
for the same sample, managed by hand under another name (as in `waking`). It uses KubeRay's own
`upgradeStrategy: NewCluster`. Capacity is a resource of the node; each worker requests one unit. The update
changes an environment variable of all pods. Requests arrive at a steady pace over kept-alive connections, and
a held or lost request delays no other.

Each update is measured from the change until the new pods serve and the old pods are gone. The 99th
percentile of the requests sent during the update is compared with that of the half minute before. KubeRay's
update without spare capacity cannot end, and is observed for three minutes.

The measurement needs the embedded cluster with Daybreak installed (`make up`), and removes the sample while
it runs.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench import report
from bench.cluster.load import Load, p99, send_requests
from bench.cluster.slots import SLOT, set_slots, slots
from bench.cluster.waking import PATIENCE_SECONDS, delete, room, sample_manifest, with_rays_class
from bench.ready import is_ready
from cluster import paths
from cluster.tools.report import Report
from quickstart import install
from tests.api.admin import Admin, eventually

MINE, HAND = "bench-mine", "bench-hand"
CALM_SECONDS = 30.0
"""Seconds of load before the change."""
AFTER_SECONDS = 5.0
"""Seconds of load after the update."""
WATCHED_SECONDS = 180.0
"""Seconds for which an update that cannot end is observed."""

GOALS: dict[str, report.Goal] = {
    "daybreak_replace_failed": {"max": 0},
    "daybreak_replace_ended": {"min": 1},
    "daybreak_replace_added_p99_to_seconds": {"max": 1},
    "daybreak_blue_green_failed": {"max": 0},
    "daybreak_blue_green_ended": {"min": 1},
    # Validity of the comparison: if this update ends, the node had spare capacity.
    "kuberay_without_room_ended": {"max": 0},
}


def main(watched: float = WATCHED_SECONDS) -> None:
    """Measure and write `bench/results/replace.json`."""
    admin, progress = Admin(paths.KUBECONFIG, install.SAMPLE_NAMESPACE), Report()
    found: dict[str, dict[str, Any]] = {}
    with room(admin), slots(admin, 1):
        with _mine(admin, progress) as spec:
            for way, number, count in (("replace", 1, 1), ("blue_green", 2, 2)):
                set_slots(admin, count)
                found[f"daybreak_{way}"] = _updated(
                    _address(admin, MINE),
                    lambda way=way, number=number: _edit(admin, way, number),  # type: ignore[misc]
                    lambda number=number: _rolled_out(admin, number + 1),  # type: ignore[misc]
                    lambda: len(_clusters(admin, MINE)) == 1,
                    PATIENCE_SECONDS,
                )
                progress.write(f"daybreak, {way}: {found[f'daybreak_{way}']}")
        with _hand(admin, spec, progress):
            for way, count, patience in (("with_room", 2, PATIENCE_SECONDS), ("without_room", 1, watched)):
                set_slots(admin, count)
                before = _active(admin)
                found[f"kuberay_{way}"] = _updated(
                    _address(admin, f"{HAND}-serve-svc", 8000),
                    lambda way=way: _edit_by_hand(admin, way),  # type: ignore[misc]
                    lambda before=before: _active(admin) != before,  # type: ignore[misc]
                    lambda: len(_clusters(admin, HAND)) == 1,
                    patience,
                )
                progress.write(f"kuberay, {way}: {found[f'kuberay_{way}']}")
    report.write(
        "replace",
        f"python -m bench.cluster.replace --watched {watched:g}",
        measures=_measures(found),
        goals=GOALS,
        runs=[{"way": way, **each} for way, each in found.items()],
        notes="One update each. Seconds until requests go to the new pods; added p99 in seconds. "
        f"`ended` 0: not within {watched:.0f} seconds.",
    )


def _measures(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    measures: dict[str, float] = {}
    for way, each in found.items():
        for name in ("sent", "failed", "ended", "seconds", "added_p99_seconds"):
            measures[f"{way}_{name}"] = each[name]
    replaced = found["daybreak_replace"]
    ratio = replaced["added_p99_seconds"] / replaced["seconds"]
    return {**measures, "daybreak_replace_added_p99_to_seconds": ratio}


def _updated(
    url: str,
    change: Callable[[], object],
    serves: Callable[[], bool],
    gone: Callable[[], bool],
    patience: float,
) -> dict[str, Any]:
    """Update a service under load, and return the measures."""
    with send_requests(url, _model()) as load:
        began = time.monotonic()
        time.sleep(CALM_SECONDS)
        changed = time.monotonic()
        change()
        ended = _within(patience, serves)
        served = time.monotonic()
        if ended:
            eventually("the old pods are gone", gone, PATIENCE_SECONDS, pause=0.5)
        time.sleep(AFTER_SECONDS)
        over = time.monotonic()
    return _cost(load, began, changed, over) | {"ended": int(ended), "seconds": round(served - changed, 2)}


def _cost(load: Load, began: float, changed: float, over: float) -> dict[str, Any]:
    before, during = load.within(began, changed), load.within(changed, over)
    errors = [f"{each.sent - changed:.1f} s: {each.error}" for each in load.answers if each.error]
    usual, then = p99(before), p99(during)
    return {
        "sent": len(load.answers),
        "failed": len(errors),
        "p99_before_seconds": round(usual, 3),
        "p99_seconds": round(then, 3),
        "added_p99_seconds": round(then - usual, 3),
        "errors": errors[:10],
    }


def _within(seconds: float, look: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if look():
            return True
        time.sleep(0.5)
    return False


@contextmanager
def _mine(admin: Admin, progress: Report) -> Iterator[Any]:
    """Run the LLMService awake, and yield the spec of its RayService."""
    manifest = {**sample_manifest(), "metadata": {"name": MINE}}
    slot = {"name": "ray", "resources": {"limits": {SLOT: 1}}}
    (model,) = manifest["spec"]["models"]
    model["podTemplate"] = {"spec": {"containers": [slot]}}
    # Two Ray clusters must fit on the node at once.
    model["resources"]["memory"] = "4Gi"
    manifest["spec"]["runtime"]["head"]["resources"]["memory"] = "3Gi"
    try:
        with progress.step("an LLMService that is awake"):
            admin.create(manifest)
            eventually("Ready", lambda: is_ready(admin.get("LLMService", MINE)), PATIENCE_SECONDS, pause=1)
            eventually("rolled out", lambda: _rolled_out(admin, 1), seconds=60, pause=1)
        yield admin.get("RayService", MINE)["spec"]
    finally:
        delete(admin, "LLMService", MINE)
        eventually("its clusters are gone", lambda: not _clusters(admin, MINE), seconds=300)


@contextmanager
def _hand(admin: Admin, spec: Any, progress: Report) -> Iterator[None]:
    """Run the service as a hand-managed RayService until the block ends."""
    spec = json.loads(json.dumps(spec).replace(MINE, HAND))
    spec["serveConfigV2"] = with_rays_class(spec["serveConfigV2"])
    # Daybreak deletes an old Ray cluster itself; KubeRay's own delay for that is a minute.
    spec.pop("rayClusterDeletionDelaySeconds", None)
    account = spec["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"]
    try:
        with progress.step("the same RayService by hand"):
            admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
            admin.create(
                {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": HAND}, "spec": spec}
            )
            eventually("it serves", lambda: is_ready(admin.get("RayService", HAND)), PATIENCE_SECONDS, 1)
        yield
    finally:
        delete(admin, "RayService", HAND)
        delete(admin, "ServiceAccount", account)


def _edit(admin: Admin, way: str, number: int) -> None:
    strategy = {"replace": "Replace", "blue_green": "BlueGreen"}[way]
    runtime = {"env": [{"name": "ROLLED", "value": str(number)}]}
    admin.merge("LLMService", MINE, {"spec": {"rollout": {"strategy": strategy}, "runtime": runtime}})


def _rolled_out(admin: Admin, number: int) -> bool:
    rollout = (admin.get("LLMService", MINE).get("status") or {}).get("rollout") or {}
    return (rollout.get("currentRevisionNumber"), rollout.get("phase")) == (number, "Complete")


def _edit_by_hand(admin: Admin, value: str) -> None:
    """Change an environment variable of all pods in the RayService itself."""
    cluster = admin.get("RayService", HAND)["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        container = group["template"]["spec"]["containers"][0]
        kept = [each for each in container["env"] if each["name"] != "ROLLED"]
        container["env"] = [*kept, {"name": "ROLLED", "value": value}]
    admin.merge("RayService", HAND, {"spec": {"rayClusterConfig": cluster}})


def _active(admin: Admin) -> str:
    status = admin.get("RayService", HAND).get("status") or {}
    return str((status.get("activeServiceStatus") or {}).get("rayClusterName") or "")


def _clusters(admin: Admin, name: str) -> list[Any]:
    label = {"labelSelector": f"ray.io/originated-from-cr-name={name}"}
    found: list[Any] = admin.list("RayCluster", **label)
    return found


def _address(admin: Admin, service: str, port: int = 80) -> str:
    return f"http://{admin.get('Service', service)['spec']['clusterIP']}:{port}/v1/completions"


def _model() -> str:
    name: str = sample_manifest()["spec"]["models"][0]["name"]
    return name


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watched", type=float, default=WATCHED_SECONDS)
    main(**vars(parser.parse_args()))
