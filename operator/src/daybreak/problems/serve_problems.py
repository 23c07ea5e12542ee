"""What stands in the way of a service, its head and each of its models: one cause each, the most useful one.

Pods come first, since what is wrong with them (an image, a Secret, memory) shows in Ray as a replica that
is merely missing. Then the engine's own words, as Ray Serve hands them on. Then what KubeRay could not
make. What may pass by itself comes last.
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
"""How Serve begins while it is still trying."""
TRIES_AGAIN = "(Ray Serve tries again)"
"""How what is said of a replica that failed to start ends, as long as Serve has not given up."""


def service_problem(
    ray: RayView, clusters: Sequence[Manifest], pods: Iterable[PodView], worker: PodFields = OF_MODELS
) -> Problem | None:
    """What keeps the whole Ray cluster from coming up; None when nothing does.

    `worker` has the fields of the kind's worker pods.
    """
    if ray.refusal:
        return Problem(
            Reason.OBJECT_REJECTED,
            f"KubeRay does not take the RayService: {excerpt(ray.refusal)}",
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
    """Return why KubeRay cannot create pods of a RayCluster, with the field to set; None if it can."""
    refused = pods_refused(clusters, cluster)
    if not refused:
        return None
    message = with_fix(f"KubeRay cannot make the pods: {excerpt(refused)}", ray_fix(refused, worker))
    # A quota or a policy stays as it is; a timeout or a lost race does not.
    return Problem(Reason.OBJECT_REJECTED, message, rejects(refused))


def model_problem(ray: RayView, pods: Iterable[PodView], model: str) -> Problem | None:
    """What keeps a model from having the replicas that it should have; None when nothing does."""
    group = names.worker_group(model)
    own = [pod for pod in pods if pod.group == group and pod.cluster == ray.coming]
    of_pods = worst(pod_problem(pod) for pod in own)
    if of_pods is not None and of_pods.stalled:
        return of_pods
    deployment = deployment_of(ray.coming_application, model)
    return worst((deployment_problem(deployment) if deployment is not None else None, of_pods))


def worst(troubles: Iterable[Problem | None]) -> Problem | None:
    """The first that somebody has to act on, else the first at all."""
    found = [problem for problem in troubles if problem is not None]
    return next((problem for problem in found if problem.stalled), found[0] if found else None)


def deployment_problem(deployment: Deployment) -> Problem | None:
    """What Serve says that keeps a deployment from having its replicas; None: nothing."""
    message = deployment.message
    spoke = "Error:\n" in message
    if deployment.status == DEPLOY_FAILED:
        return Problem(Reason.MODEL_FAILED, engine_error(message) or "it failed to start", stalled=True)
    if deployment.failed:
        # A replica that had run is gone. Serve starts another one; only if that one fails, it is stuck.
        said = engine_error(message) if spoke else "a replica failed its health check and is started anew"
        return Problem(Reason.MODEL_FAILED, said, stalled=spoke)
    if spoke or message.startswith(_FIRST_WORDS):
        return Problem(Reason.MODEL_FAILED, f"{engine_error(message)} {TRIES_AGAIN}", stalled=False)
    return None


def deployment_of(application: Application | None, model: str) -> Deployment | None:
    """What Serve says of a model's deployment; None when it says nothing."""
    if application is None:
        return None
    return application.deployments.get(names.serve_deployment(model))
