"""Ray clusters of an application: those that get worker pods, and those that are deleted."""

from datetime import datetime, timedelta
from typing import Any

from daybreak.kinds.serveapplication.decide.cluster_bounds import cluster_bounds
from daybreak.kinds.serveapplication.decide.ray_clusters import SETTLED, replaced_clusters
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.kinds.serveapplication.ways import view_of
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


def test_the_one_that_serves_has_the_pods_that_the_spec_says() -> None:
    own = {group.name: (group.fewest, group.most) for group in application().groups}
    assert cluster_bounds(view(cluster(SERVING, EARLIER))) == {SERVING: own}


def test_while_a_second_one_comes_up_both_keep_what_they_have() -> None:
    pending = {"rayClusterName": OTHER}
    both = view(cluster(SERVING, EARLIER), cluster(OTHER, LATER), pendingServiceStatus=pending)
    assert cluster_bounds(both) == {}
    assert replaced(both) == ([], False)


def test_one_that_was_replaced_before_it_served_is_deleted() -> None:
    """It would keep the accelerators that its successor waits for."""
    assert replaced(view(cluster(OTHER, EARLIER), cluster(NEXT, LATER), **coming(NEXT))) == ([OTHER], False)


def test_one_that_was_called_off_is_deleted() -> None:
    assert replaced(view(cluster(SERVING, EARLIER), cluster(OTHER, LATER))) == ([OTHER], False)


def test_one_that_was_made_in_the_same_second_as_the_one_that_serves_has_never_served() -> None:
    assert replaced(view(cluster(OTHER, EARLIER), cluster(SERVING, EARLIER))) == ([OTHER], False)


def test_one_that_is_new_may_be_one_of_which_the_rayservice_has_not_told_yet() -> None:
    both = cluster(OTHER, THIS_MOMENT), cluster(NEXT, THIS_MOMENT)
    assert replaced(view(*both, **coming(NEXT))) == ([], True)
    nearly = NOW + SETTLED - timedelta(seconds=1)
    assert replaced(view(*both, now=nearly, **coming(NEXT))) == ([], True)
    assert replaced(view(*both, now=NOW + SETTLED, **coming(NEXT))) == ([OTHER], False)


def test_one_that_has_served_is_left_until_its_requests_have_ended() -> None:
    assert replaced(view(cluster(OTHER, EARLIER), cluster(SERVING, LATER))) == ([], False)


def test_one_that_goes_already_is_left_alone() -> None:
    goes = cluster(OTHER, EARLIER, deletionTimestamp=LATER)
    assert replaced(view(goes, cluster(NEXT, LATER), **coming(NEXT))) == ([], False)


def test_the_first_one_is_left_alone_until_it_serves() -> None:
    first = view(cluster(OTHER, EARLIER), **coming(OTHER))
    assert replaced(first) == ([], False)
    assert cluster_bounds(first) == {}


def test_nothing_is_deleted_while_kuberay_names_none() -> None:
    unnamed = view(cluster(OTHER, EARLIER), activeServiceStatus={}, pendingServiceStatus={})
    assert replaced(unnamed) == ([], False)
