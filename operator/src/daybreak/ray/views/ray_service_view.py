"""What KubeRay and Ray Serve say of a service, read from the RayService and its RayClusters.

KubeRay copies Serve's own words into the RayService: for the active cluster while it is alone, and only
for the pending one while a second cluster is coming up. Then nothing is said of the active one, which goes
on serving as it was.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, condition, mapping, mappings, text, whole

RUNNING = "RUNNING"
HEALTHY = "HEALTHY"
DEPLOY_FAILED = "DEPLOY_FAILED"
UNHEALTHY = "UNHEALTHY"
NOT_STARTED = "NOT_STARTED"
_OF_DEPLOYMENTS = ("Failed to update the deployments", "The deployments [")
"""How Serve begins the message of an application that failed because of single deployments."""

Bounds = Mapping[str, tuple[int, int]]
"""Fewest and most pods of each worker group of a RayCluster, by the group's name."""


@dataclass(frozen=True)
class Deployment:
    """What Serve says of one deployment."""

    status: str
    message: str

    @property
    def failed(self) -> bool:
        """Whether Serve has given up on it, or its replicas fail their health checks."""
        return self.status in (DEPLOY_FAILED, UNHEALTHY)


@dataclass(frozen=True)
class Application:
    """What Serve says of the service's application."""

    status: str
    message: str
    deployments: Mapping[str, Deployment]

    @property
    def failed(self) -> bool:
        """Whether the application as a whole could not be built, whatever its deployments say."""
        return self.status == DEPLOY_FAILED and not self.message.startswith(_OF_DEPLOYMENTS)

    @property
    def settled(self) -> bool:
        """Whether Serve works on no change of the application: it runs, or some deployments of it do not."""
        return self.status == RUNNING or (
            self.status in (DEPLOY_FAILED, UNHEALTHY) and self.message.startswith(_OF_DEPLOYMENTS)
        )


@dataclass(frozen=True)
class RayView:
    """A RayService, read."""

    exists: bool
    leaving: bool
    """Whether it is being deleted."""
    ready: bool
    """KubeRay's word that requests can be sent to the active cluster."""
    active: str
    """Name of the RayCluster that takes the requests; empty when there is none."""
    pending: str
    """Name of the RayCluster that is coming up; empty when there is none."""
    application: Application | None
    """The application on the active cluster; None while it is not known."""
    pending_application: Application | None
    generation: int
    observed: bool
    """Whether KubeRay has seen the present spec."""
    refusal: str
    """Why KubeRay does not take the RayService; empty when it does."""
    configuration: str
    """Digest of what makes replicas restart when it changes."""
    last_update: str
    """When KubeRay last wrote the status."""

    @property
    def upgrading(self) -> bool:
        """Whether a second cluster is coming up beside the one that serves."""
        return bool(self.active and self.pending)

    @property
    def coming(self) -> str:
        """The cluster that shows how the present spec fares."""
        return self.pending or self.active

    @property
    def coming_application(self) -> Application | None:
        """The application on that cluster."""
        return self.pending_application if self.pending else self.application


def ray_view(ray_service: Manifest | None, applications: Sequence[str] = (names.APPLICATION,)) -> RayView:
    """Read a RayService that has applications of these names: together they are one."""
    manifest = mapping(ray_service)
    status = mapping(manifest.get("status"))
    ready = condition(status, "Ready")
    metadata = at(manifest, "metadata")
    leaving = bool(metadata.get("deletionTimestamp"))
    generation = whole(metadata.get("generation"))
    observed = whole(status.get("observedGeneration")) >= generation
    active = mapping(status.get("activeServiceStatus"))
    pending = mapping(status.get("pendingServiceStatus"))
    return RayView(
        exists=bool(manifest),
        leaving=leaving,
        ready=ready.get("status") == "True" and not leaving,
        active=text(active.get("rayClusterName")),
        pending=text(pending.get("rayClusterName")),
        application=_together(active, applications),
        pending_application=_together(pending, applications),
        generation=generation,
        observed=observed,
        refusal=_refusal(ready, observed),
        configuration=text(at(metadata, "annotations").get(names.CONFIGURATION_ANNOTATION)),
        last_update=text(status.get("lastUpdateTime")),
    )


def by_name(clusters: Iterable[Manifest]) -> dict[str, Manifest]:
    """RayClusters by their names."""
    return {text(at(each, "metadata").get("name")): each for each in clusters}


def never_served(ray: RayView, clusters: Iterable[Manifest]) -> list[Manifest]:
    """RayClusters that were replaced before they ever served.

    KubeRay keeps such a one for as long as the requests of one that served might take.
    """
    found = by_name(clusters)
    serving = found.get(ray.active)
    others = [each for name, each in found.items() if name not in (ray.active, ray.pending)]
    if ray.active:
        # One that had served is older than the one that serves, by more than a second.
        return [each for each in others if _made(each) >= _made(serving)]
    return others if ray.pending else []


def replaced(ray: RayView, clusters: Iterable[Manifest], used: Collection[str]) -> tuple[Manifest, ...]:
    """RayClusters that were replaced by a newer one, and that nobody uses any more.

    One that is not older than every one that KubeRay names is left alone: its watch may be ahead of the
    RayService's, so that it is one which KubeRay has just made.
    """
    if not ray.exists or ray.leaving:
        return ()
    named = {ray.active, ray.pending} - {""}
    made = by_name(clusters)
    newest = max((_made(made.get(name)) for name in named), default="")
    return tuple(
        each
        for name, each in made.items()
        if name not in named
        and name not in used
        and _made(each) < newest
        and not at(each, "metadata").get("deletionTimestamp")
    )


def no_pods(cluster: Manifest) -> Bounds:
    """Bounds with which a RayCluster has no worker pods."""
    return {
        text(group.get("groupName")): (0, 0)
        for group in mappings(at(cluster, "spec").get("workerGroupSpecs"))
    }


def _made(cluster: Manifest | None) -> str:
    """When a RayCluster was made; such times sort as text."""
    return text(at(cluster, "metadata").get("creationTimestamp"))


def pods_refused(clusters: Iterable[Manifest], name: str) -> str:
    """What kept KubeRay from making or removing pods of a RayCluster; empty when nothing did."""
    for cluster in clusters:
        if at(cluster, "metadata").get("name") == name:
            failure = condition(mapping(cluster).get("status"), "ReplicaFailure")
            if failure.get("status") == "True":
                return text(failure.get("message")) or text(failure.get("reason"))
    return ""


def _refusal(ready: Mapping[str, Any], observed: bool) -> str:
    """KubeRay stops at a spec that it does not like, and leaves what it had said before standing."""
    reason = ready.get("reason")
    if ready.get("status") == "True":
        return ""
    if reason == "InitializingTimeout" or (reason == "ValidationFailed" and not observed):
        return text(ready.get("message")) or text(reason)
    return ""


def _together(status: Mapping[str, Any], applications: Sequence[str]) -> Application | None:
    """Several applications as one: it is as the worst of them is. None: nothing is said of any."""
    said = [_application(status, name) for name in applications]
    if not any(said):
        return None
    found = [each or Application(NOT_STARTED, "", {}) for each in said]
    worst = min(found, key=lambda each: (_order(each.status), not each.failed))
    deployments = {name: one for each in found for name, one in each.deployments.items()}
    return Application(worst.status, worst.message, deployments)


def _order(status: str) -> int:
    """What says most of several applications comes first: a failure, then what is on its way."""
    ranks = {DEPLOY_FAILED: 0, UNHEALTHY: 1, RUNNING: 3}
    return ranks.get(status, 2)


def _application(status: Mapping[str, Any], name: str) -> Application | None:
    found = at(status, "applicationStatuses").get(name)
    if not isinstance(found, Mapping):
        return None
    return Application(
        status=text(found.get("status")),
        message=text(found.get("message")),
        deployments={
            name: Deployment(text(mapping(each).get("status")), text(mapping(each).get("message")))
            for name, each in mapping(found.get("serveDeploymentStatuses")).items()
        },
    )
