"""State of a service in KubeRay and Ray Serve, read from the RayService and its RayClusters.

KubeRay copies Serve's status into the RayService: for the active cluster while it is the only one. While a
second cluster starts, KubeRay copies only the status of the pending one. The active cluster then continues to
serve, without a status.
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
"""Beginnings of Serve's message about an application that failed because of single deployments."""

Bounds = Mapping[str, tuple[int, int]]
"""Minimum and maximum number of pods of each worker group of a RayCluster, by group name."""


@dataclass(frozen=True)
class Deployment:
    """Serve's status of one deployment."""

    status: str
    message: str

    @property
    def failed(self) -> bool:
        """True if Serve has given up on the deployment, or its replicas fail their health checks."""
        return self.status in (DEPLOY_FAILED, UNHEALTHY)


@dataclass(frozen=True)
class Application:
    """Serve's status of the service's application."""

    status: str
    message: str
    deployments: Mapping[str, Deployment]

    @property
    def failed(self) -> bool:
        """True if the application as a whole could not be built, regardless of its deployments."""
        return self.status == DEPLOY_FAILED and not self.message.startswith(_OF_DEPLOYMENTS)

    @property
    def settled(self) -> bool:
        """True if Serve applies no change to the application: it runs, or some deployments have failed."""
        return self.status == RUNNING or (
            self.status in (DEPLOY_FAILED, UNHEALTHY) and self.message.startswith(_OF_DEPLOYMENTS)
        )


@dataclass(frozen=True)
class RayView:
    """View of a RayService."""

    exists: bool
    leaving: bool
    """True if the RayService is being deleted."""
    ready: bool
    """True if KubeRay reports that the active cluster accepts requests."""
    active: str
    """Name of the RayCluster that receives requests; empty if there is none."""
    pending: str
    """Name of the pending RayCluster; empty if there is none."""
    application: Application | None
    """Application on the active cluster; None while it is unknown."""
    pending_application: Application | None
    generation: int
    observed: bool
    """True if KubeRay has observed the current spec."""
    refusal: str
    """Reason why KubeRay rejects the RayService; empty if it accepts it."""
    configuration: str
    """Digest of the configuration whose change restarts replicas."""
    last_update: str
    """Time of KubeRay's last write of the status."""

    @property
    def upgrading(self) -> bool:
        """True if a second cluster is starting alongside the serving one."""
        return bool(self.active and self.pending)

    @property
    def coming(self) -> str:
        """Name of the cluster that shows the result of the current spec."""
        return self.pending or self.active

    @property
    def coming_application(self) -> Application | None:
        """Application on the cluster of `coming`."""
        return self.pending_application if self.pending else self.application


def ray_view(ray_service: Manifest | None, applications: Sequence[str] = (names.APPLICATION,)) -> RayView:
    """Return the view of a RayService; its applications of these names are combined into one."""
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
    """Return RayClusters by name."""
    return {text(at(each, "metadata").get("name")): each for each in clusters}


def never_served(ray: RayView, clusters: Iterable[Manifest]) -> list[Manifest]:
    """Return the RayClusters that were replaced before they ever served.

    KubeRay keeps such a cluster for as long as the requests of a serving cluster might take.
    """
    found = by_name(clusters)
    serving = found.get(ray.active)
    others = [each for name, each in found.items() if name not in (ray.active, ray.pending)]
    if ray.active:
        # A cluster that has served is more than a second older than the serving one.
        return [each for each in others if _made(each) >= _made(serving)]
    return others if ray.pending else []


def replaced(ray: RayView, clusters: Iterable[Manifest], used: Collection[str]) -> tuple[Manifest, ...]:
    """Return the RayClusters that were replaced by a newer one and are no longer used.

    A cluster that is not older than the newest one in the RayService is excluded. The watch of RayClusters
    may be ahead of that of RayServices, so KubeRay may have just created the cluster.
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
    """Return bounds with which a RayCluster has no worker pods."""
    return {
        text(group.get("groupName")): (0, 0)
        for group in mappings(at(cluster, "spec").get("workerGroupSpecs"))
    }


def _made(cluster: Manifest | None) -> str:
    """Return the creation time of a RayCluster; such times sort as text."""
    return text(at(cluster, "metadata").get("creationTimestamp"))


def pods_refused(clusters: Iterable[Manifest], name: str) -> str:
    """Return the error of KubeRay at creating or deleting pods of a RayCluster; empty if there is none."""
    for cluster in clusters:
        if at(cluster, "metadata").get("name") == name:
            failure = condition(mapping(cluster).get("status"), "ReplicaFailure")
            if failure.get("status") == "True":
                return text(failure.get("message")) or text(failure.get("reason"))
    return ""


def _refusal(ready: Mapping[str, Any], observed: bool) -> str:
    """Return KubeRay's rejection of a spec. KubeRay then stops, and does not update the other statuses."""
    reason = ready.get("reason")
    if ready.get("status") == "True":
        return ""
    if reason == "InitializingTimeout" or (reason == "ValidationFailed" and not observed):
        return text(ready.get("message")) or text(reason)
    return ""


def _together(status: Mapping[str, Any], applications: Sequence[str]) -> Application | None:
    """Combine several applications into one with the worst status, or return None if none has a status."""
    message = [_application(status, name) for name in applications]
    if not any(message):
        return None
    found = [each or Application(NOT_STARTED, "", {}) for each in message]
    worst = min(found, key=lambda each: (_order(each.status), not each.failed))
    deployments = {name: one for each in found for name, one in each.deployments.items()}
    return Application(worst.status, worst.message, deployments)


def _order(status: str) -> int:
    """Return the rank of a status: failures first, then states in progress."""
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
