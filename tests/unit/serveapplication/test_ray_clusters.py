"""Ray clusters of an application: those that get worker pods, and those that are deleted."""

from datetime import datetime, timedelta
from typing import Any

from daybreak.kinds.serveapplication.decide.cluster_bounds import cluster_bounds
from daybreak.kinds.serveapplication.decide.ray_clusters import SETTLED, replaced_clusters
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.functions import view_of
from tests.unit.serveapplication.applications import ASKED, NOW, application, live, observe

SERVING, OTHER, NEXT = "pipeline-abcde", "pipeline-other", "pipeline-next"
EARLIER, LATER = "2026-05-04T11:00:00Z", "2026-05-04T11:30:00Z"
THIS_MOMENT = "2026-05-04T12:00:00Z"


def cluster(name: str, made: str, **metadata: Any) -> dict[str, Any]:
    """Return a Ray cluster."""
    return {"metadata": {"name": name, "creationTimestamp": made, **metadata}, "spec": {}}


def view(*clusters: dict[str, Any], now: datetime = NOW, **status: Any) -> View:
    """Return a view of an application with this status from KubeRay."""
    ray = live(application(), **status)
    return view_of(observe(None, ray, traffic=ASKED, now=now, ray_clusters=clusters))


def coming(name: str) -> dict[str, Any]:
    """Return KubeRay's status for a cluster that starts while none serves."""
    return {"activeServiceStatus": {}, "pendingServiceStatus": {"rayClusterName": name}}


def replaced(of: View) -> tuple[list[str], bool]:
    """Return the names of the clusters to delete, and True if more follow soon."""
    found, more = replaced_clusters(of)
    return [each["metadata"]["name"] for each in found], more


def test_serving_cluster_has_pod_bounds_of_spec() -> None:
    own = {group.name: (group.fewest, group.most) for group in application().groups}
    assert cluster_bounds(view(cluster(SERVING, EARLIER))) == {SERVING: own}


def test_both_clusters_are_unchanged_while_second_cluster_starts() -> None:
    pending = {"rayClusterName": OTHER}
    both = view(cluster(SERVING, EARLIER), cluster(OTHER, LATER), pendingServiceStatus=pending)
    assert cluster_bounds(both) == {}
    assert replaced(both) == ([], False)


def test_cluster_replaced_before_serving_is_deleted() -> None:
    """It would keep the accelerators that its successor waits for."""
    assert replaced(view(cluster(OTHER, EARLIER), cluster(NEXT, LATER), **coming(NEXT))) == ([OTHER], False)


def test_cancelled_new_cluster_is_deleted() -> None:
    assert replaced(view(cluster(SERVING, EARLIER), cluster(OTHER, LATER))) == ([OTHER], False)


def test_cluster_created_in_same_second_as_serving_cluster_is_deleted() -> None:
    assert replaced(view(cluster(OTHER, EARLIER), cluster(SERVING, EARLIER))) == ([OTHER], False)


def test_new_cluster_is_deleted_only_after_settle_time() -> None:
    both = cluster(OTHER, THIS_MOMENT), cluster(NEXT, THIS_MOMENT)
    assert replaced(view(*both, **coming(NEXT))) == ([], True)
    nearly = NOW + SETTLED - timedelta(seconds=1)
    assert replaced(view(*both, now=nearly, **coming(NEXT))) == ([], True)
    assert replaced(view(*both, now=NOW + SETTLED, **coming(NEXT))) == ([OTHER], False)


def test_cluster_older_than_serving_cluster_is_kept() -> None:
    assert replaced(view(cluster(OTHER, EARLIER), cluster(SERVING, LATER))) == ([], False)


def test_cluster_being_deleted_is_ignored() -> None:
    goes = cluster(OTHER, EARLIER, deletionTimestamp=LATER)
    assert replaced(view(goes, cluster(NEXT, LATER), **coming(NEXT))) == ([], False)


def test_starting_first_cluster_is_unchanged() -> None:
    first = view(cluster(OTHER, EARLIER), **coming(OTHER))
    assert replaced(first) == ([], False)
    assert cluster_bounds(first) == {}


def test_no_cluster_is_deleted_while_kuberay_names_none() -> None:
    unnamed = view(cluster(OTHER, EARLIER), activeServiceStatus={}, pendingServiceStatus={})
    assert replaced(unnamed) == ([], False)
