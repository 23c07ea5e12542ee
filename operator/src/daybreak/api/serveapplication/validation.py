"""Validation of a well-formed ServeApplication: rules across fields that CEL cannot express."""

from collections import Counter
from collections.abc import Iterator

from daybreak import versions
from daybreak.api.common import names, volume_names
from daybreak.api.common.source import ModelSource
from daybreak.api.gates import health_check_rules, schedule_rules
from daybreak.api.pods import pod_owners, pod_rules
from daybreak.api.ray import model_rules
from daybreak.api.schema.scalars import parse_quantity
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.deployment import Deployment
from daybreak.api.serveapplication.groups import Group, of_replica

_MEBIBYTE = 2**20
_ACCOUNT_LIMIT = 50
_NOT_OF_LLMS = ("cache", "lora", "routing", "volumes", "volume_mounts")
"""Fields of a model that only an LLMService supports."""
LLMS_ARGUMENT = "models"
"""Name of the argument with the LLMs' handles."""
_OWN_VARIABLE = "PYTHONPATH"
"""Environment variable with the path of mounted code."""


def problems(application: ServeApplication) -> tuple[str, ...]:
    """Return each problem that prevents a build of the spec, as one sentence; empty if none."""
    return (
        *_names(application),
        *_code(application),
        *_deployments(application),
        *_routes(application),
        *_room(application),
        *_llms(application),
        *_runtime(application),
        *_templates(application),
        *_schedule(application),
    )


def _names(application: ServeApplication) -> Iterator[str]:
    spec = application.spec
    for field, given in (
        ("deployments", [each.name for each in spec.deployments]),
        ("workerGroups", [each.name for each in spec.worker_groups]),
        ("models", list(spec.models)),
        ("llms", [each.name for each in spec.llms]),
        ("routes", [each.prefix for each in spec.routes]),
    ):
        for name, times in Counter(given).items():
            if times > 1:
                yield f"spec.{field}: {name} occurs {times} times; it may occur once"


def _code(application: ServeApplication) -> Iterator[str]:
    code = application.spec.code
    if code is None or code.working_dir is None or not code.working_dir.startswith(("pvc://", "image://")):
        return
    try:
        ModelSource.parse(code.working_dir)
    except ValueError as error:
        yield f"spec.code.workingDir: {error}"


def _deployments(application: ServeApplication) -> Iterator[str]:
    for each in application.spec.deployments:
        path = f"spec.deployments[{each.name}]"
        for name, quantity in (("cpu", each.cpu), ("memory", each.memory)):
            if name == "memory" and quantity is not None and parse_quantity(quantity) < _MEBIBYTE:
                yield f"{path}.memory: {quantity} is less than 1Mi; write it with Mi or Gi"
        if each.placement_group is not None:
            yield from _first_bundle(each, path)


def _routes(application: ServeApplication) -> Iterator[str]:
    """Yield route problems.

    Each application of a route needs a deployment, and each deployment an application.
    """
    spec = application.spec
    own = {route.prefix for route in spec.routes if route.import_path is not None}
    for route in spec.routes:
        if route.args is not None and route.import_path is None:
            yield f"spec.routes[{route.prefix}].args: they require an importPath of the route"
    for each in spec.deployments:
        if each.route is not None and each.route not in own:
            yield f"spec.deployments[{each.name}].route: no route {each.route} has an importPath"
    for prefix in sorted(own - {each.route for each in spec.deployments}):
        yield f"spec.routes[{prefix}]: no deployment belongs to its application: name it in their route"


def _first_bundle(deployment: Deployment, path: str) -> Iterator[str]:
    assert deployment.placement_group is not None  # noqa: S101 - checked by the caller
    first = deployment.placement_group.bundles[0]
    if parse_quantity(first.cpu) < parse_quantity(deployment.cpu):
        yield (
            f"{path}.placementGroup.bundles[0].cpu: the replica itself takes {deployment.cpu} of it, and it "
            f"has {first.cpu}"
        )
    if first.accelerators < deployment.accelerators:
        yield (
            f"{path}.placementGroup.bundles[0].accelerators: the replica itself takes "
            f"{deployment.accelerators:g} of it, and it has {first.accelerators:g}"
        )


def _room(application: ServeApplication) -> Iterator[str]:
    """Yield a problem for each deployment with a replica that does not fit a pod of its group."""
    written = {group.name for group in application.spec.worker_groups}
    for group in application.groups:
        if group.accelerators > 64:
            yield f"spec.deployments: group {group.name} comes to {group.accelerators} accelerators a pod"
        if group.name in written:
            for each in group.deployments:
                yield from _fits(each, group)
                yield from _per_node(each, group)
            if not group.deployments:
                yield f"spec.workerGroups[{group.name}]: no deployment names it; take it out"


def _fits(deployment: Deployment, group: Group) -> Iterator[str]:
    room, path = of_replica(deployment), f"spec.deployments[{deployment.name}]"
    if room.accelerators > group.accelerators:
        yield (
            f"{path}: a replica needs {room.accelerators:g} accelerators in one pod, and a pod of worker "
            f"group {group.name} has {group.accelerators}: give the group more, or another group"
        )
    if room.cpu > group.ray_cpus:
        yield (
            f"{path}: a replica needs {room.cpu:f} cores in one pod, and a pod of worker group {group.name} "
            f"offers {group.ray_cpus}: give the group more, or another group"
        )
    # Ray reserves the memory that the spec states. Ray has less than the pod's whole memory, so this check is
    # the minimum.
    has = group.pod.resources.memory
    if deployment.memory is not None and has is not None and parse_quantity(has) < room.memory:
        yield (
            f"{path}: a replica needs {deployment.memory} of memory in one pod, and a pod of worker group "
            f"{group.name} has {has}: give the group more, or another group"
        )


def _per_node(deployment: Deployment, group: Group) -> Iterator[str]:
    """Yield a problem if the pods of the group cannot have the deployment's minimum replicas."""
    each, fewest = deployment.max_replicas_per_node, deployment.fewest
    if each is not None and each * group.most < fewest:
        yield (
            f"spec.deployments[{deployment.name}].maxReplicasPerNode: {fewest} replicas, {each} in one pod, "
            f"need {-(-fewest // each)} pods, and worker group {group.name} has at most {group.most}: raise "
            "its maxPods"
        )


def _llms(application: ServeApplication) -> Iterator[str]:
    spec, runtime = application.spec, application.workload.runtime
    groups = {group.name for group in application.groups}
    own = [volume.name for volume in spec.runtime.volumes]
    keys = spec.access is not None and bool(spec.access.api_keys)
    for number, model in enumerate(spec.llms):
        path = f"spec.llms[{number}]"
        for field in _NOT_OF_LLMS:
            if getattr(model, field):
                yield f"{path}.{type(model).model_fields[field].alias}: LLMs of an application have none"
        if names.worker_group(model.name) in groups:
            yield f"{path}.name: worker group {names.worker_group(model.name)} has that name; rename one"
        yield from model_rules.problems(model, path, runtime)
        yield from model_rules.template_problems(model, path, own, spec.runtime.volume_mounts, keys=keys)
    yield from model_rules.deployment_names(spec.llms, "llms")
    taken = {names.serve_deployment(each.name) for each in spec.llms}
    for name in sorted(taken & {each.name for each in spec.deployments}):
        yield f"spec.deployments[{name}]: that is the deployment of an LLM; say its settings in spec.llms"
    if spec.llms and LLMS_ARGUMENT in (spec.args or {}):
        yield f"spec.args.{LLMS_ARGUMENT}: the handles of spec.llms come there; use another name"


def _runtime(application: ServeApplication) -> Iterator[str]:
    runtime = application.spec.runtime
    account = runtime.service_account_name
    if account is not None and len(account) > _ACCOUNT_LIMIT:
        yield (
            f"spec.runtime.serviceAccountName: {account} has {len(account)} characters, of which KubeRay "
            f"keeps {_ACCOUNT_LIMIT}"
        )
    given = [variable.name for variable in runtime.env]
    for name, times in Counter(given).items():
        if times > 1:
            yield f"spec.runtime.env: {name} occurs {times} times; it may occur once"
    if application.spec.code is not None and _OWN_VARIABLE in given:
        yield f"spec.runtime.env: {_OWN_VARIABLE} is set to where spec.code appears; take it out"
    written = application.workload.runtime.stated_ray_version
    if written and _numbers(written) < _numbers(versions.RAY_MINIMUM):
        yield f"spec.runtime: Ray {written} is older than {versions.RAY_MINIMUM}, the oldest supported one"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _templates(application: ServeApplication) -> Iterator[str]:
    spec = application.spec
    keys = spec.access is not None and bool(spec.access.api_keys)
    closed = "NetworkPolicies do not hold there, so spec.access would be passed by" if keys else ""
    own = [volume.name for volume in spec.runtime.volumes]
    head = spec.runtime.head
    if head.pod_template is not None:
        owner = pod_owners.ray_owner(
            "head",
            sizes="spec.runtime.head.resources",
            cpu=head.resources.cpu,
            volumes=[*(volume.name for volume in head.volumes), *volume_names.SHARED_VOLUMES],
            host_network=closed,
        )
        yield from pod_rules.problems(head.pod_template, "spec.runtime.head.podTemplate", owner)
    for group in spec.worker_groups:
        if group.pod_template is None:
            continue
        owner = pod_owners.ray_owner(
            "worker",
            sizes=f"spec.workerGroups[{group.name}]",
            cpu=group.cpu,
            device=spec.accelerator.resource if group.accelerators else "",
            volumes=[*own, *volume_names.SHARED_VOLUMES, volume_names.CACHE_VOLUME],
            mounts={volume_names.CODE_DIRECTORY: "there spec.code appears"} if spec.code is not None else {},
            host_network=closed,
        )
        yield from pod_rules.problems(
            group.pod_template, f"spec.workerGroups[{group.name}].podTemplate", owner
        )


def _schedule(application: ServeApplication) -> Iterator[str]:
    yield from health_check_rules.problems(application.spec.sleep, application.spec.access)
    if application.spec.sleep is not None:
        yield from schedule_rules.problems("spec.sleep.schedule", application.spec.sleep.schedule)
