"""Claims of batches on scarce accelerators or CPUs: allocated and requested."""

from datetime import timedelta

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, parse_time, text
from daybreak.api.schema.scalars import seconds
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.ray.views.accelerator_pods import held_by_node, no_room_since, with_pods
from daybreak.ray.views.ray_pods import pod_views
from daybreak.scheduling.claim import Claim
from daybreak.scheduling.fit import nodes_for
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.replica_size import accelerators_per_pod, scarce_resource


def claims(observed: Observed, nodes: tuple[Node, ...] | None) -> tuple[Claim, ...]:
    """Return the claim of the batch's own model, or none without such a model or with a Kueue queue.

    Kueue decides on the turn of the batches that it admits. An ended, suspended or invalid batch has a claim
    only while its pods still use accelerators.
    """
    batch = observed.subject
    if batch is None or batch.spec.model is None or batch.queue:
        return ()
    model = batch.spec.model
    resource = scarce_resource(model)
    pods = [pod for pod in pod_views(observed.pods) if pod.group == names.worker_group(model.name)]
    holds = held_by_node([pod for pod in pods if not pod.over], model)
    goes = observed.finished or batch.spec.suspend or bool(observed.problems)
    if goes and not holds:
        return ()
    answers = observed.progress is not None and observed.progress.state == "Running"
    queued = bool(observed.after)
    waits = not goes and not answers
    made = parse_time(text(at(observed.job, "metadata").get("creationTimestamp")))
    asked_for = parse_time(text(at(observed.manifest, "metadata").get("creationTimestamp"))) or observed.now
    gives_way = batch.spec.preemptible and batch.spec.resume and made is not None and not queued
    shortest = timedelta(seconds=seconds(batch.spec.min_run_duration))
    claim = Claim(
        owner=f"{batch.namespace}/{batch.owner}",
        model=model.name,
        resource=resource,
        since=asked_for,
        devices=accelerators_per_pod(model),
        holds=holds,
        waits=waits,
        no_room_since=no_room_since(pods, model) if waits else None,
        queued=waits and queued,
        nodes=nodes_for(model, nodes) if waits and nodes is not None else None,
        leaving=goes or queued,
        background=True,
        yields_at=made + shortest if gives_way and made is not None and not goes else None,
    )
    return (with_pods(claim, batch.workload, model, [pod for pod in pods if not pod.over]),)
