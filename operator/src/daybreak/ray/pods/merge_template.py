"""Merge of a user's `podTemplate` into one of Daybreak's pods.

Fields that Daybreak owns were rejected before (`api.pod_rules`). The rest is merged like Kubernetes patches:
maps by key, lists with a key field by entry, and other values as a whole.
"""

import copy
from collections.abc import Mapping
from typing import Any

from daybreak.api.pods import pod_rules, pod_schema
from daybreak.api.pods.pod_template import PodTemplate
from daybreak.api.schema.scalars import parse_quantity

Manifest = dict[str, Any]


def restricted() -> Manifest:
    """Return the container security context that the restricted Pod Security Standard requires."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def merged(own: Mapping[str, Any], template: PodTemplate | None, *, container: str, alias: str) -> Manifest:
    """Return the pod template `own` with a user's additions.

    Args:
        own: Daybreak's template, with metadata and spec.
        template: Additions.
        container: Name of Daybreak's container. It stays the first container, in which KubeRay starts Ray.
        alias: Alternative name of the container in the template.
    """
    if template is None:
        return dict(own)
    whole: Manifest = copy.deepcopy(dict(own))
    metadata = whole.setdefault("metadata", {})
    for kind, added in (
        ("labels", template.metadata.labels),
        ("annotations", template.metadata.annotations),
    ):
        if added:
            # Daybreak's own values take precedence, although the rules already reject conflicting ones.
            metadata[kind] = {**added, **metadata.get(kind, {})}
    spec = template.written()
    for kind in ("containers", "initContainers"):
        for each in spec.get(kind, ()):
            if each["name"] == alias and kind == "containers":
                each["name"] = container
    tolerations = [*whole["spec"].get("tolerations", ())]
    tolerations += [each for each in spec.pop("tolerations", ()) if each not in tolerations]
    whole["spec"] = _map(whole["spec"], spec, pod_schema.pod())
    if tolerations:
        whole["spec"]["tolerations"] = tolerations
    _finish(whole["spec"], container)
    return whole


def mounted(template: PodTemplate | None, *, container: str, alias: str) -> set[str]:
    """Return the mount paths of the template in Daybreak's container, without a trailing slash."""
    if template is None:
        return set()
    return {
        mount["mountPath"].rstrip("/")
        for each in template.written().get("containers", ())
        if each["name"] in (container, alias)
        for mount in each.get("volumeMounts", ())
    }


def sized(own: Mapping[str, Any], given: Mapping[str, Any]) -> Manifest:
    """Return a container's resources, overridden by those of a template.

    Kubernetes rejects a request above its limit. Therefore a given limit lowers Daybreak's request, and a
    given request raises Daybreak's limit.
    """
    whole: Manifest = copy.deepcopy({**own, **given})
    whole["requests"] = requests = {**own.get("requests", {}), **given.get("requests", {})}
    whole["limits"] = limits = {**own.get("limits", {}), **given.get("limits", {})}
    for name in requests.keys() & limits.keys():
        if parse_quantity(str(requests[name])) <= parse_quantity(str(limits[name])):
            continue
        if name in given.get("limits", {}):
            requests[name] = limits[name]
        else:
            limits[name] = requests[name]
    return whole


def _map(own: Mapping[str, Any], added: Mapping[str, Any], kind: pod_schema.Type) -> Manifest:
    fields = pod_schema.fields(kind)
    done = dict(own)
    for name, value in added.items():
        done[name] = _value(done.get(name), value, fields.get(name, "any"))
    return done


def _value(own: Any, added: Any, kind: pod_schema.Type) -> Any:
    if isinstance(own, dict) and isinstance(added, dict):
        return _map(own, added, kind)
    if isinstance(own, list) and pod_schema.keys(kind):
        return _list(own, added, kind)
    return added


def _list(own: list[Any], added: list[Any], kind: pod_schema.Type) -> list[Any]:
    """Merge lists of entries by name.

    Containers of the same name are merged; other added entries replace existing ones. Otherwise a variable
    with a value could get a `valueFrom` as well, which Kubernetes rejects.
    """
    assert isinstance(kind, Mapping)  # noqa: S101 - asked before
    containers = kind["list"] == {"ref": "containers"}
    done = {pod_schema.identity(entry, kind): entry for entry in own}
    for entry in added:
        key = pod_schema.identity(entry, kind)
        together = containers and key in done
        done[key] = _map(done[key], entry, kind["list"]) if together else entry
    return list(done.values())


def _finish(spec: Manifest, container: str) -> None:
    """Complete the settings that follow from a template, with the restricted standard as the default.

    A container with its own `securityContext` stays unchanged.
    """
    for each in [*spec["containers"], *spec.get("initContainers", ())]:
        if each["name"] != container:
            each.setdefault("securityContext", restricted())
        elif pod_rules.escalates(each["securityContext"]):
            # Kubernetes rejects a container that both forbids and permits escalation.
            each["securityContext"].pop("allowPrivilegeEscalation", None)
    if spec.get("hostNetwork"):
        # Otherwise the pod uses the node's name server, which knows no Services: workers would not find the
        # head.
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
