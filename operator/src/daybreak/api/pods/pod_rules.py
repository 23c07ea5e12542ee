"""Rules for `podTemplate`: reject a field that Daybreak or KubeRay owns (`pod_owners.py`), and name it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from daybreak.api.common import names, volume_names
from daybreak.api.common.engine_args import nearest
from daybreak.api.pods import pod_schema
from daybreak.api.pods.pod_owners import Owner
from daybreak.api.pods.pod_template import PodMetadata, PodTemplate
from daybreak.api.schema.scalars import parse_quantity

_OWN_LABELS = (
    names.NAME_LABEL,
    names.INSTANCE_LABEL,
    names.COMPONENT_LABEL,
    names.MANAGED_BY_LABEL,
    names.PART_OF_LABEL,
)
_OWN_PREFIXES = ("daybreak.dev/", "ray.io/")
_OPEN_RAY_LABELS = ("ray.io/gang-scheduling-enabled", "ray.io/priority-class-name")
"""Labels of a RayCluster that configure KubeRay's batch schedulers."""

_SIZES = ("cpu", "memory")
_OVERCOMMITTED = (*_SIZES, "ephemeral-storage")
"""Resources of which a pod may use more than it requests. Request and limit of any other resource are
equal."""


def metadata_problems(metadata: PodMetadata, path: str, *, cluster: bool = False) -> Iterator[str]:
    """Yield labels and annotations that Daybreak or KubeRay owns.

    If `cluster` is true, the metadata is that of the RayService.
    """
    for label in metadata.labels:
        if cluster and label in _OPEN_RAY_LABELS:
            continue
        if label in _OWN_LABELS or label.startswith(_OWN_PREFIXES):
            yield f"{path}.labels.{label}: Daybreak and KubeRay find their objects by it; use another label"
    for annotation in metadata.annotations:
        if annotation.startswith(_OWN_PREFIXES):
            yield f"{path}.annotations.{annotation}: Daybreak and KubeRay keep their own state there"


def problems(template: PodTemplate, path: str, owner: Owner) -> Iterator[str]:
    """Yield unknown and owned fields of a template, each as one sentence with its path."""
    spec, where = template.written(), f"{path}.spec"
    yield from metadata_problems(template.metadata, f"{path}.metadata")
    wrong = list(pod_schema.problems(spec, where))
    yield from wrong
    if wrong:
        return
    for name, value in spec.items():
        if name in owner.fields and not (name == "hostNetwork" and value is False):
            yield f"{where}.{name}: Daybreak owns this field: {owner.fields[name]}"
    volumes = [each["name"] for each in spec.get("volumes", ())]
    for number, name in enumerate(volumes):
        at = f"{where}.volumes[{number}].name"
        if owned_volume(name, owner):
            yield f"{at}: {name} is the name of a volume of Daybreak's own; use another"
        elif name in owner.volumes:
            yield f"{at}: {name} is a volume of the service already; use another name"
    known = {*volumes, *owner.volumes}
    claims = {each["name"] for each in spec.get("resourceClaims", ())}
    if names.ACCELERATOR_CLAIM in claims:
        taken = names.ACCELERATOR_CLAIM
        yield f"{where}.resourceClaims: {taken} is the claim of accelerator.claim; use another name"
    yield from _containers(spec, where, owner, known, claims)


def owned_volume(name: str, owner: Owner | None = None) -> bool:
    """Return True if a volume of that name belongs to Daybreak or KubeRay."""
    if owner is not None and owner.container == names.GATEWAY_COMPONENT:
        own = (names.GATEWAY_RUN_VOLUME, names.GATEWAY_PROOF_VOLUME, volume_names.API_TOKEN_VOLUME)
        return name in own or name.startswith(names.GATEWAY_KEYS_VOLUME_PREFIX)
    return name.startswith(volume_names.VOLUME_PREFIX) or name in volume_names.RESERVED_VOLUMES


def _containers(
    spec: Mapping[str, Any], where: str, owner: Owner, volumes: Collection[str], claims: Collection[str]
) -> Iterator[str]:
    own = (owner.container, owner.alias)
    observed: set[str] = set()
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(kind, ())):
            path, name = f"{where}.{kind}[{number}]", container["name"]
            main = kind == "containers" and name in own
            added = kind == "containers" and name in owner.added
            plain = owner.container if name in own else name
            taken = not (main or added) and (name in own or name in owner.containers)
            if plain in observed or taken:
                yield f"{path}.name: the pod has a container {name} already; use another name"
            observed.add(plain)
            if main:
                yield from _own_container(container, path, owner)
            elif added:
                for each in sorted(container.keys() - owner.added[name]):
                    yield f"{path}.{each}: KubeRay makes this container; set {_listed(owner.added[name])}"
            else:
                if "image" not in container:
                    near = nearest(name, own)
                    hint = f", or did you mean {owner.alias}?" if near else ""
                    yield f"{path}.image: this field is needed{hint}"
                yield from _ports(container, path, owner)
            yield from _resources(container, path, owner, main=main and bool(owner.sizes))
            yield from _mounts(container, path, owner, volumes, main=main)
            for at, claim in enumerate(container.get("resources", {}).get("claims", ())):
                if claim["name"] not in claims:
                    yield f"{path}.resources.claims[{at}].name: {where}.resourceClaims has no {claim['name']}"


def _own_container(container: Mapping[str, Any], path: str, owner: Owner) -> Iterator[str]:
    for name in container:
        if name in owner.container_fields:
            yield f"{path}.{name}: Daybreak owns this field: {owner.container_fields[name]}"
    for number, variable in enumerate(container.get("env", ())):
        reason = owner.variables.get(variable["name"], "")
        if variable["name"].startswith(("DAYBREAK_", "GATEWAY_")) and not reason:
            reason = "it is Daybreak's own"
        if reason:
            yield f"{path}.env[{number}].name: {variable['name']} may not be set: {reason}"
    security = container.get("securityContext", {})
    if security.get("allowPrivilegeEscalation") is False and escalates(security):
        yield (
            f"{path}.securityContext.allowPrivilegeEscalation: Kubernetes rejects false with privileged or "
            "SYS_ADMIN; leave it out"
        )
    yield from _ports(container, path, owner)


def _listed(fields: Collection[str]) -> str:
    *most, last = sorted(set(fields) - {"name"})
    return f"{', '.join(most)}, or {last}"


def escalates(security: Mapping[str, Any]) -> bool:
    """Return True if a container has settings that include privilege escalation.

    Kubernetes then does not allow a container to forbid it.
    """
    added = security.get("capabilities", {}).get("add", ())
    return bool(security.get("privileged")) or any(each in ("SYS_ADMIN", "CAP_SYS_ADMIN") for each in added)


def _ports(container: Mapping[str, Any], path: str, owner: Owner) -> Iterator[str]:
    for number, port in enumerate(container.get("ports", ())):
        taken = port["containerPort"]
        if taken in owner.ports:
            yield f"{path}.ports[{number}].containerPort: {taken} is taken in this pod; use another"


def _resources(container: Mapping[str, Any], path: str, owner: Owner, *, main: bool) -> Iterator[str]:
    resources = container.get("resources", {})
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name in amounts:
            at = f"{path}.resources.{kind}.{name}"
            if owner.device and name == owner.device:
                yield f"{at}: Daybreak owns this field: accelerators are counted by parallelism"
            elif main and name in _SIZES and (kind, name) != ("limits", "cpu"):
                yield f"{at}: Daybreak owns this field: use {owner.sizes}.{name}"
    for name, requested in requests.items():
        at = f"{path}.resources.requests.{name}"
        if name not in _OVERCOMMITTED and str(limits.get(name)) != str(requested):
            yield f"{at}: Kubernetes has only one number of this resource: write it in limits alone"
        elif name in limits and parse_quantity(str(requested)) > parse_quantity(str(limits[name])):
            yield f"{at}: {requested} is more than the limit of {limits[name]}"
    if main and "cpu" in limits:
        at = f"{path}.resources.limits.cpu"
        if owner.cpu is None:
            yield f"{at}: a limit goes with a request: set {owner.sizes}.cpu as well"
        elif parse_quantity(owner.cpu) > parse_quantity(str(limits["cpu"])):
            yield f"{at}: {limits['cpu']} is less than {owner.sizes}.cpu, which is {owner.cpu}"


def _mounts(
    container: Mapping[str, Any], path: str, owner: Owner, volumes: Collection[str], *, main: bool
) -> Iterator[str]:
    for number, mount in enumerate(container.get("volumeMounts", ())):
        at, target = f"{path}.volumeMounts[{number}]", mount["mountPath"].rstrip("/")
        if mount["name"] not in volumes:
            near = nearest(mount["name"], tuple(volumes))
            hint = f"; did you mean {near}?" if near else ""
            yield f"{at}.name: the pod has no volume {mount['name']}{hint}"
        if main and target in owner.mounts:
            yield f"{at}.mountPath: {mount['mountPath']} may not be covered: {owner.mounts[target]}"
