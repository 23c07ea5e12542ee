"""Ray clusters that have been replaced and have no requests left."""

from daybreak.api.common.unstructured import Manifest
from daybreak.gates.sleep_policy import backends_before
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.ray_service_view import ray_view, replaced


def finished_clusters(observed: Observed) -> tuple[Manifest, ...]:
    """Return the RayClusters to delete: replaced by a newer one, and without a request of any gateway.

    KubeRay deletes a replaced cluster after a delay that it reads once, when the traffic has moved. That
    delay is the limit, `rollout.drainTimeout`. This function returns the clusters that are finished earlier.
    Without reports of a gateway no cluster is finished, because the gateway may have streams there.
    """
    gateway = observed.gateway
    if gateway is None or gateway.past or gateway.clusters is None:
        return ()
    used = gateway.clusters | set(backends_before(observed.status))
    return replaced(ray_view(observed.ray_service), observed.ray_clusters, used)
