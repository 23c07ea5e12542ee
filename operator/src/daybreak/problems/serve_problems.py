"""Blocking problems of a service, its head and each of its models: one cause each, the most useful one.

Pod problems have precedence, because in Ray they (an image, a Secret, memory) only appear as a missing
replica. Then follow the engine's errors, as Ray Serve forwards them, and objects that KubeRay could not
create. Problems that may pass by themselves are last.
"""

from collections.abc import Iterable, Sequence

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason
from daybreak.api.common.unstructured import Manifest
from daybreak.problems.engine_errors import engine_error
from daybreak.problems.pod_problems import pod_problem
from daybreak.problems.pod_refusals import OF_MODELS, PodFields, ray_fix, rejects, with_fix
from daybreak.problems.problem import Problem
from daybreak.problems.redact import excerpt
from daybreak.ray.views.ray_pods import HEAD, PodView
from daybreak.ray.views.ray_service_view import DEPLOY_FAILED, Application, Deployment, RayView, pods_refused

_FIRST_WORDS = "A replica failed to start with exception."
"""Start of Serve's message while it still tries."""
TRIES_AGAIN = "(Ray Serve tries again)"
"""End of a message about a replica that failed to start, while Serve has not given up."""


def service_problem(
    ray: RayView, clusters: Sequence[Manifest], pods: Iterable[PodView], worker: PodFields = OF_MODELS
) -> Problem | None:
    """Return the problem that prevents the whole Ray cluster from starting, or None.

    `worker` has the fields of the kind's worker pods.
    """
    if ray.refusal:
        return Problem(
            Reason.OBJECT_REJECTED,
            f"KubeRay rejects the RayService: {excerpt(ray.refusal)}",
            stalled=True,
        )
    heads = (pod for pod in pods if pod.role == HEAD and pod.cluster == ray.coming)
    found = worst(pod_problem(pod) for pod in heads)
    if found is not None:
        return Problem(found.reason, f"head: {found.message}", found.stalled, of_head=True)
    if rejected := pods_rejected(clusters, ray.coming, worker):
        return rejected
    application = ray.coming_application
    if application is not None and application.failed:
        return Problem(Reason.MODEL_FAILED, engine_error(application.message), stalled=True)
    return None


def pods_rejected(clusters: Sequence[Manifest], cluster: str, worker: PodFields) -> Problem | None:
    """Return why KubeRay cannot create pods of a RayCluster, with the field to set, or None if it can."""
    refused = pods_refused(clusters, cluster)
    if not refused:
        return None
    message = with_fix(f"KubeRay cannot create the pods: {excerpt(refused)}", ray_fix(refused, worker))
    # A quota or a policy stays as it is; a timeout or a conflict does not.
    return Problem(Reason.OBJECT_REJECTED, message, rejects(refused))


def model_problem(ray: RayView, pods: Iterable[PodView], model: str) -> Problem | None:
    """Return the problem that prevents a model from having its replicas, or None."""
    group = names.worker_group(model)
    own = [pod for pod in pods if pod.group == group and pod.cluster == ray.coming]
    of_pods = worst(pod_problem(pod) for pod in own)
    if of_pods is not None and of_pods.stalled:
        return of_pods
    deployment = deployment_of(ray.coming_application, model)
    return worst((deployment_problem(deployment) if deployment is not None else None, of_pods))


def worst(troubles: Iterable[Problem | None]) -> Problem | None:
    """Return the first problem that requires action, or else the first one."""
    found = [problem for problem in troubles if problem is not None]
    return next((problem for problem in found if problem.stalled), found[0] if found else None)


def deployment_problem(deployment: Deployment) -> Problem | None:
    """Return the problem in Serve's report that prevents a deployment from having its replicas, or None."""
    message = deployment.message
    spoke = "Error:\n" in message
    if deployment.status == DEPLOY_FAILED:
        return Problem(Reason.MODEL_FAILED, engine_error(message) or "it failed to start", stalled=True)
    if deployment.failed:
        # A running replica is gone. Serve starts another one; the deployment is stuck only if that one fails
        # too.
        report = engine_error(message) if spoke else "a replica failed its health check and restarts"
        return Problem(Reason.MODEL_FAILED, report, stalled=spoke)
    if spoke or message.startswith(_FIRST_WORDS):
        return Problem(Reason.MODEL_FAILED, f"{engine_error(message)} {TRIES_AGAIN}", stalled=False)
    return None


def deployment_of(application: Application | None, model: str) -> Deployment | None:
    """Return Serve's report on a model's deployment, or None if there is none."""
    if application is None:
        return None
    return application.deployments.get(names.serve_deployment(model))
