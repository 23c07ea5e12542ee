"""Fixes for pods that a namespace's policy rejects: the fields of the spec that the policy demands."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

_DEMANDS = re.compile(r"must specify ([^\n]+)")
_DEMAND = re.compile(r"([a-z][a-z0-9./-]*) for: ([a-z0-9.,-]+)")
_ABOVE_LIMIT = re.compile(r"must be less than or equal to (\S+) limit")
_RANGE = re.compile(r"\b(minimum|maximum) ([a-z0-9./-]+) usage per (?:Container|Pod)\b")
_RATIO = re.compile(r"\b([a-z0-9./-]+) max limit to request ratio per (?:Container|Pod)\b")
_EXCEEDED = re.compile(r"exceeded quota: [^,\n]+, requested: ")
_SECURITY = re.compile(r"violates PodSecurity ")
_PLACE = re.compile(r"containers\[([0-9]+)\]")
_CPU_LIMIT = "limits.cpu"
REJECTED = ("forbidden", "is invalid", "denied")
"""Words of a rejection that lasts until an administrator or a user acts."""


@dataclass(frozen=True)
class PodFields:
    """Fields of a spec that shape a container.

    Attributes:
        template: Path of the `podTemplate`.
        container: Name of the container there.
        sizes: Path of its requests and its memory; empty if the template has them.
        resources: Path of all its resources, if it is no template.
        owner: Kind and name of another object whose spec has these paths.
    """

    template: str
    container: str
    sizes: str = ""
    resources: str = ""
    owner: str = ""

    def place(self, name: str) -> str:
        """Return where a resource such as `limits.cpu` is set."""
        of = f" of {self.owner}" if self.owner else ""
        if self.resources:
            return f"{self.resources}.{name}{of}"
        kind, _, resource = name.partition(".")
        if self.sizes and resource in ("cpu", "memory") and (kind, resource) != ("limits", "cpu"):
            return f"{self.sizes}.{resource}{of}"
        return f"resources.{name} of container {self.container} in {self.template}{of}"


HEAD = PodFields("spec.runtime.head.podTemplate", "ray", "spec.runtime.head.resources")
AUTOSCALER = replace(HEAD, container="autoscaler", sizes="")
OF_MODELS = PodFields("spec.models[].podTemplate", "ray", "spec.models[].resources")
OF_MODEL = PodFields("spec.model.podTemplate", "ray", "spec.model.resources")


def rejects(message: str) -> bool:
    """Return True if a message reports a rejection that does not end by itself."""
    return any(word in message for word in REJECTED)


def ray_fix(message: str, worker: PodFields) -> str:
    """Return what to set so that the Ray pods of a cluster are admitted; empty if that is unknown.

    Args:
        message: Message of the API server, as KubeRay reports it.
        worker: Fields of the worker pods.
    """
    containers = {"ray-head": HEAD, "autoscaler": AUTOSCALER, "ray-worker": worker}
    if re.search(r"-worker\b", message):
        pods = [[worker]]
    elif re.search(r"-head\b", message):
        pods = [[HEAD, AUTOSCALER]]
    else:
        pods = [[HEAD, AUTOSCALER], [worker]]
    return fix(message, containers, pods)


def fix(
    message: str, containers: Mapping[str, PodFields], pods: Sequence[Sequence[PodFields]] | None = None
) -> str:
    """Return what to set so that a pod is admitted; empty if the message names no known policy.

    Args:
        message: Message of the API server.
        containers: Fields of each of Daybreak's containers, by its name in the pod.
        pods: Fields of the containers of each pod that the message can be about, in the order of the pod. If
            None, there is one pod with `containers`.
    """
    rows = [[*containers.values()]] if pods is None else pods
    found = [*_demanded(message, containers, rows)] or [*_bounded(message, rows)]
    return "; ".join(dict.fromkeys(found))


def with_fix(message: str, advice: str) -> str:
    """Return a message with the fix at its end."""
    return f"{message}; {advice}" if advice else message


def _demanded(
    message: str, containers: Mapping[str, PodFields], pods: Sequence[Sequence[PodFields]]
) -> Iterator[str]:
    """Yield the fields that a quota requires of each container, as advice."""
    demands = _DEMANDS.search(message)
    if demands is None:
        return
    named = [
        (resource, name)
        for resource, names in _DEMAND.findall(demands[1])
        for name in names.strip(",.").split(",")
    ]
    for resource, name in named:
        fields = containers.get(name)
        yield f"set {fields.place(resource) if fields else f'resources.{resource} of container {name}'}"
    if named:
        return
    # Before Kubernetes 1.24 the API server names no container.
    for resource in demands[1].split(","):
        for fields in (each for pod in pods for each in pod):
            yield f"set {fields.place(resource.strip())}"


def _bounded(message: str, pods: Sequence[Sequence[PodFields]]) -> Iterator[str]:
    """Yield the fields that a LimitRange, a full quota or Pod Security requires to change, as advice."""
    place = _PLACE.search(message)
    number = int(place[1]) if place else 0
    chosen = [pod[min(number, len(pod) - 1)] for pod in pods]
    for fields in chosen:
        if above := _ABOVE_LIMIT.search(message):
            limit, request = (fields.place(f"{kind}.{above[1]}") for kind in ("limits", "requests"))
            yield f"raise {limit}" if limit == request else f"raise {limit}, or lower {request}"
        elif bound := _RANGE.search(message):
            change = "raise" if bound[1] == "minimum" else "lower"
            yield f"{change} {fields.place(f'limits.{bound[2]}')}"
        elif ratio := _RATIO.search(message):
            limit, request = (fields.place(f"{kind}.{ratio[1]}") for kind in ("limits", "requests"))
            yield f"lower {limit}, or raise {request}"
        elif _EXCEEDED.search(message):
            yield f"lower {fields.sizes or fields.resources or fields.place(_CPU_LIMIT)}, or raise the quota"
        elif _SECURITY.search(message):
            yield f"set securityContext in {fields.template}, or relax the namespace's level"
