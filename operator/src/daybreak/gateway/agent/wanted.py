"""What HAProxy should be told of a service, from its LLMService and its Ray pods: pure, and lenient.

Each service is read for itself, since a manifest of one that nobody can read must not stop the others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.scalars import parse_quantity
from daybreak.api.common.unstructured import at, mapping, mappings, text, whole
from daybreak.api.gates.gate_status import GateState
from daybreak.api.ray.routing import RoutingPolicy
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Choice, Gate, Policy, Service

GATES = {GateState.OPEN: Gate.OPEN, GateState.CLOSED: Gate.CLOSED, GateState.FAILED: Gate.FAILED}
MAX_HELD = 1000
MAX_BODY_BYTES = 10 * 2**20
HOLD_SECONDS = 300
MAX_ONGOING = 256
MAX_QUEUED = 1000
FALLBACK_REPLICAS = 2
IMBALANCED_THRESHOLD = 16
"""What is used where the LLMService says nothing that can be read."""


@dataclass(frozen=True)
class Ports:
    """Where Ray pods listen for requests."""

    serve: int = 8000
    """Serve's proxy, in head pods."""
    replica: int = 8100
    """A replica's own server, in the worker pods of its model."""


@dataclass(frozen=True)
class Group:
    """The replicas of one model, with a backend of their own."""

    name: str
    """The worker group's name."""
    models: tuple[str, ...]
    """Names that its requests bear: the model's, and those of its LoRA adapters."""
    servers: tuple[Server, ...]
    queue: int
    """Requests that may wait for one of them."""


@dataclass(frozen=True)
class Wanted:
    """One service as HAProxy should have it."""

    uid: str
    """The LLMService itself: another one of the same name is another service."""
    created: str
    """When it was created, as Kubernetes writes it: the older one keeps a port that two were given."""
    port: int
    service: Service
    servers: tuple[Server, ...]
    """Servers of the service's own backend: of its one model, or the Serve proxy for several."""
    groups: tuple[Group, ...] = ()
    """Backends of the models, where the service has several."""

    @property
    def seniority(self) -> tuple[str, str]:
        """The lower one keeps the port."""
        return self.created, self.service.name


def wanted(
    manifest: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    ports: Ports,
    keys: tuple[str, ...] = (),
) -> Wanted | None:
    """What is to be programmed for an LLMService, or None while the operator has given it no gate.

    `keys` are the digests of its API keys.
    """
    metadata, hold = mapping(manifest.get("metadata")), at(manifest, "spec", "hold")
    gate = at(manifest, "status", "gate")
    port = whole(gate.get("port"))
    if not port:
        return None
    direct = at(manifest, "spec", "runtime").get("directIngress") is not False
    service = Service(
        name=text(metadata.get("name")),
        # A state of a newer operator that is unknown here: to hold loses nothing.
        gate=GATES.get(gate.get("state", ""), Gate.CLOSED),
        epoch=whole(gate.get("epoch")),
        models=_models(manifest),
        reason=text(gate.get("reason")) or "The model cannot start.",
        hold_ms=1000 * (whole(gate.get("holdSeconds")) or HOLD_SECONDS),
        max_held=_count(hold.get("maxRequests"), MAX_HELD),
        max_body_bytes=_bytes(hold.get("maxBodyBytes")),
        replicas_listen=direct,
        adapters=tuple(name for model in _written(manifest) for name in _adapters(model)),
        choices=_choices(manifest) if direct else {},
        keys=keys,
    )
    found = _Pods(pods, text(gate.get("cluster")), ports)
    groups = found.groups(manifest, service.models) if direct else ()
    service = replace(service, queues={name: group.queue for group in groups for name in group.models})
    return Wanted(
        uid=text(metadata.get("uid")),
        created=text(metadata.get("creationTimestamp")),
        port=port,
        service=service,
        servers=groups[0].servers if len(groups) == 1 else found.proxies(),
        groups=groups if len(groups) > 1 else (),
    )


class _Pods:
    """The pods of the Ray cluster that the gate leads to, and the servers in them, in a fixed order."""

    def __init__(self, pods: Iterable[Mapping[str, Any]], cluster: str, ports: Ports) -> None:
        self._ports = ports
        self._heads: set[str] = set()
        self._workers: dict[str, set[str]] = {}
        """Addresses of worker pods, by worker group."""
        for pod in pods:
            metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
            labels, host = mapping(metadata.get("labels")), text(status.get("podIP"))
            # The address of a pod that has ended may be another pod's by now.
            ended = metadata.get("deletionTimestamp") or status.get("phase") in ("Failed", "Succeeded")
            if not cluster or labels.get(names.RAY_CLUSTER_LABEL) != cluster or not host or ended:
                continue
            if labels.get(names.RAY_NODE_TYPE_LABEL) == "head":
                self._heads.add(host)
            elif group := text(labels.get(names.MODEL_LABEL)):
                self._workers.setdefault(group, set()).add(host)

    def proxies(self, *, backup: bool = False) -> tuple[Server, ...]:
        """The Serve proxies, which hand a request to any model."""
        return tuple(Server(host, self._ports.serve, backup=backup) for host in sorted(self._heads))

    def groups(self, manifest: Mapping[str, Any], models: Iterable[str]) -> tuple[Group, ...]:
        """The replicas of each model that can be asked for, with the proxies as backup."""
        written = _written(manifest)
        base = {text(model["name"]): model for model in written}
        base |= {adapter: model for model in written for adapter in _adapters(model)}
        named: dict[str, list[str]] = {}
        limits: dict[str, int] = {}
        queues: dict[str, int] = {}
        for name in models:
            # A model that the spec does not have any more is still served while its successor starts.
            model = base.get(name, {"name": name})
            group = names.worker_group(text(model["name"]))
            named.setdefault(group, []).append(name)
            limits[group] = _most_ongoing(model)
            queues[group] = _most_queued(model, limits[group] * len(self._workers.get(group, ())))
        return tuple(
            Group(
                group,
                tuple(served),
                (
                    *(
                        Server(host, self._ports.replica, max_connections=limits[group])
                        for host in sorted(self._workers.get(group, ()))
                    ),
                    *self.proxies(backup=True),
                ),
                queues[group],
            )
            for group, served in named.items()
        )


def _written(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The models of the spec."""
    return [model for model in mappings(at(manifest, "spec").get("models")) if text(model.get("name"))]


def _adapters(model: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of a model's LoRA adapters."""
    adapters = mappings(at(model, "lora").get("adapters"))
    return tuple(text(adapter.get("name")) for adapter in adapters if text(adapter.get("name")))


def _choices(manifest: Mapping[str, Any]) -> dict[str, Choice]:
    """How replicas are chosen, by the names of models and of their adapters: `models[].routing`."""
    found: dict[str, Choice] = {}
    for model in _written(manifest):
        choice = _choice(at(model, "routing"), _most_ongoing(model))
        if choice is not None:
            found |= dict.fromkeys((text(model["name"]), *_adapters(model)), choice)
    return found


def _choice(routing: Mapping[str, Any], most: int) -> Choice | None:
    """None: the least busy one, which is also what PowerOfTwo comes to where all are known."""
    match routing.get("policy"):
        case RoutingPolicy.SESSION:
            fallbacks = _count(at(routing, "session").get("fallbackReplicas"), FALLBACK_REPLICAS)
            return Choice(Policy.SESSION, most, fallbacks)
        case RoutingPolicy.PREFIX:
            ahead = _count(at(routing, "prefix").get("imbalancedThreshold"), IMBALANCED_THRESHOLD)
            return Choice(Policy.PREFIX, most, ahead)
        case RoutingPolicy.ROUND_ROBIN:
            return Choice(Policy.TURNS, most)
    return None


def _most_ongoing(model: Mapping[str, Any]) -> int:
    return _count(at(model, "serve").get("maxOngoingRequests"), MAX_ONGOING)


def _most_queued(model: Mapping[str, Any], running: int) -> int:
    """Requests that may wait for a replica; unless the spec says it, as many as all of them run at a time."""
    return _count(at(model, "serve").get("maxQueuedRequests"), max(MAX_QUEUED, running))


def _models(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Names that can be asked for: the gate's, or the spec's where the gate is of an older operator."""
    named = at(manifest, "status", "gate").get("models")
    if not isinstance(named, list):
        named = [model.get("name") for model in mappings(mapping(manifest.get("spec")).get("models"))]
    return tuple(text(name) for name in named if text(name))


def _count(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _bytes(value: Any) -> int:
    if value is None:
        return MAX_BODY_BYTES
    try:
        return int(parse_quantity(str(value)))
    except ValueError:
        return MAX_BODY_BYTES


class Claims:
    """Which service has which port."""

    def __init__(self) -> None:
        self._by_name: dict[str, Wanted] = {}
        self._by_port: dict[int, dict[str, Wanted]] = {}

    def put(self, name: str, claim: Wanted | None) -> set[int]:
        """Take in what a service wants now; None: nothing. Returns the ports that may have changed."""
        touched = set()
        before = self._by_name.pop(name, None)
        if before is not None:
            touched.add(before.port)
            others = self._by_port[before.port]
            del others[name]
            if not others:
                del self._by_port[before.port]
        if claim is not None:
            touched.add(claim.port)
            self._by_name[name] = claim
            self._by_port.setdefault(claim.port, {})[name] = claim
        return touched

    def holder(self, port: int) -> Wanted | None:
        """Who has the port: the oldest of those that were given it."""
        return min(self._by_port.get(port, {}).values(), key=lambda claim: claim.seniority, default=None)

    def names(self) -> set[str]:
        """Every service that wants a port."""
        return set(self._by_name)
