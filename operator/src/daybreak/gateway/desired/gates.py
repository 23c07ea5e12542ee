"""Desired configuration of HAProxy for a service, from its object and pods. No manifest can block another."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, mapping, mappings, text, whole
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.protocol import Protocol
from daybreak.api.ray.routing_policy import RoutingPolicy
from daybreak.api.schema.scalars import parse_quantity
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.gateway.hold.keys import ApiKey
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Choice, Gate, Policy, Slot

_PATHS = {Protocol.OPENAI: "", Protocol.V2: "v2"}
"""Allowed paths by protocol. An unknown protocol of a newer operator allows any path."""
GATES = {GateState.OPEN: Gate.OPEN, GateState.CLOSED: Gate.CLOSED, GateState.FAILED: Gate.FAILED}
STRICT_PACK = "STRICT_PACK"
"""Placement that puts a replica's pipeline in one pod."""
MAX_HELD = 1000
MAX_BODY_BYTES = 10 * 2**20
HOLD_SECONDS = 300
MAX_ONGOING = 256
MAX_QUEUED = 1000
DEPLOYMENT_ONGOING = 5
FALLBACK_REPLICAS = 2
IMBALANCED_THRESHOLD = 16
MOST_WEIGHT = 100
"""Defaults for values that are missing or unreadable in the spec."""


@dataclass(frozen=True)
class Ports:
    """Ports at which Ray pods listen for requests."""

    serve: int = 8000
    """Port of Serve's proxy, in head pods."""
    replica: int = 8100
    """Direct port of a replica, in the worker pods of its model."""


@dataclass(frozen=True, slots=True)
class DesiredGate:
    """Desired state of one gate in HAProxy."""

    slot: Slot
    servers: tuple[Server, ...]
    pods: int = 1
    """Pods of each replica, of which one listens. A pod does not show whether it listens."""


@dataclass(frozen=True, slots=True)
class DesiredService:
    """Desired state of one service in HAProxy."""

    uid: str
    """UID of the object: another one of the same name is another service."""
    created: str
    """Creation time in Kubernetes' format: of two services with one port, the older one keeps it."""
    port: int
    front: DesiredGate
    """Gate for requests whose model is not known, if there are several models; Serve's proxies know the
    model."""
    gates: tuple[DesiredGate, ...]
    """Gates of the models."""

    @property
    def name(self) -> str:
        """Name of the service."""
        return self.front.slot.service

    @property
    def models(self) -> Sequence[str]:
        """Model names that requests to the service may use."""
        return self.front.slot.listed

    @property
    def seniority(self) -> tuple[str, str]:
        """Sort key: of two services the lower one keeps the port."""
        return self.created, self.name


def desired_state(
    manifest: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    ports: Ports,
    keys: tuple[ApiKey, ...] = (),
) -> DesiredService | None:
    """Return the desired state of a workload, or None while the operator has assigned no gate.

    `keys` are its API keys.
    """
    metadata, hold = mapping(manifest.get("metadata")), at(manifest, "spec", "hold")
    gate = at(manifest, "status", "gate")
    port = whole(gate.get("port"))
    if not port:
        return None
    application = text(manifest.get("kind")) == SERVE_APPLICATIONS.kind
    paths: str = _PATHS.get(text(gate.get("protocol")) or Protocol.OPENAI, "any")  # type: ignore[call-overload]
    routes = _routes(manifest) if application and paths == "any" else ()
    common = Slot(
        service=names.of_owner(text(manifest.get("kind")), text(metadata.get("name"))),
        uid=text(metadata.get("uid")),
        port=port,
        gate=Gate.CLOSED,
        epoch=0,
        max_held=_count(hold.get("maxRequests"), MAX_HELD),
        max_body_bytes=_bytes(hold.get("maxBodyBytes")),
        replicas_listen=not application and at(manifest, "spec", "runtime").get("directIngress") is not False,
        paths="routes" if routes else paths,
        routes=routes,
        keys=keys,
        check=_check(gate),
        origins=_texts(at(manifest, "spec", "access").get("corsOrigins")),
        extra=_texts(at(manifest, "spec", "access").get("extraFields")),
        probes=_probes(at(manifest, "spec", "sleep", "healthChecks")),
    )
    found = _Pods(pods, gate, ports)
    written = {text(model.get("name")): model for model in _models(at(manifest, "spec"))}
    entries = {text(entry.get("name")): entry for entry in mappings(gate.get("models")) if entry.get("name")}
    # A model that was removed from the spec is still served while its successor starts.
    gates = tuple(
        _model_gate(common, entry, written.get(name, {}), found) for name, entry in entries.items() if name
    )
    if application:
        gates = tuple(_application_gate(gate, manifest, found) for gate in gates)
    elif common.paths:
        # Its requests contain no model name, so no name leads to it.
        gates = tuple(replace(gate, slot=replace(gate.slot, models=())) for gate in gates)
    return DesiredService(
        uid=text(metadata.get("uid")),
        created=text(metadata.get("creationTimestamp")),
        port=port,
        front=DesiredGate(_front(common, [each.slot for each in gates]), found.proxies("")),
        gates=gates,
    )


def _routes(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the allowed path prefixes, or none if all paths are allowed."""
    prefixes = [text(route.get("prefix")) for route in mappings(at(manifest, "spec").get("routes"))]
    plain = [each.strip("/") for each in prefixes if each]
    return tuple(dict.fromkeys(f"{each}/" for each in plain)) if all(plain) else ()


def _probes(checks: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the marks of requests that do not count as activity."""
    marks = {"userAgents": "agent/", "keys": "key/", "paths": "path"}
    return tuple(
        f"{mark}{each}" for field, mark in marks.items() for each in dict.fromkeys(_texts(checks.get(field)))
    )


def _application_gate(gate: DesiredGate, manifest: Mapping[str, Any], pods: "_Pods") -> DesiredGate:
    """Return the gate of an application.

    It takes any request to its port, or one with a name of its models.
    """
    models = _texts(at(manifest, "spec").get("models")) if not gate.slot.paths else ()
    most = sum(map(_most_at_once, mappings(at(manifest, "spec").get("deployments"))))
    # Each request belongs to at least one deployment. The spec does not show which one is first.
    slot = replace(gate.slot, models=models, queue=max(MAX_QUEUED, most))
    return DesiredGate(slot, pods.proxies("", limit=most))


def _most_at_once(deployment: Mapping[str, Any]) -> int:
    """Return the maximum number of concurrent requests of an application's deployment with all replicas."""
    replicas = mapping(deployment.get("autoscaling")).get("maxReplicas", deployment.get("numReplicas"))
    return _count(deployment.get("maxOngoingRequests"), DEPLOYMENT_ONGOING) * max(1, _count(replicas, 1))


def _models(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the models of a spec: several of an LLMService, or the one of a ModelServer."""
    only = mapping(spec.get("model"))
    if not only:
        return mappings(spec.get("models"))
    return [{**only, "serve": {"maxOngoingRequests": spec.get("maxOngoingRequests")}}]


def _check(gate: Mapping[str, Any]) -> str:
    """Return the path of all servers' health checks, or nothing for that of Ray pods."""
    paths = {text(backend.get("healthPath")) for backend in mappings(gate.get("backends"))}
    path = paths.pop() if len(paths) == 1 else ""
    return path if path.startswith("/") else ""


def _model_gate(
    common: Slot, entry: Mapping[str, Any], written: Mapping[str, Any], pods: "_Pods"
) -> DesiredGate:
    """Return the gate of a model, from its entry in the status and its entry in the spec."""
    name, limit, direct = text(entry.get("name")), _most_ongoing(written), common.replicas_listen
    adapters = _texts(entry.get("adapters"))
    # Serve's proxy chooses replicas itself; its limit is the sum of its cluster's replicas.
    replicas, each = pods.replicas(name, limit), _pods_per_replica(written)
    slot = replace(
        common,
        model=name,
        # Unknown state of a newer operator: holding loses nothing.
        gate=GATES.get(text(entry.get("state")), Gate.CLOSED),  # type: ignore[call-overload]
        epoch=whole(entry.get("epoch")),
        models=tuple(dict.fromkeys((name, *adapters))),
        adapters=adapters,
        front=False,
        reason=text(entry.get("reason")) or "The model cannot start.",
        hold_ms=1000 * (whole(entry.get("holdSeconds")) or HOLD_SECONDS),
        choice=_choice(at(written, "routing"), limit) if direct else None,
        queue=_most_queued(written, limit * math.ceil(len(replicas) / each)),
    )
    if direct:
        return DesiredGate(slot, (*replicas, *pods.proxies(name, backup=True)), each)
    return DesiredGate(slot, pods.proxies(name, limit=limit, each=each))


def _front(common: Slot, models: Sequence[Slot]) -> Slot:
    """Return the gate of requests whose model is not known: they wait for all models."""
    reasons = dict.fromkeys(f"{slot.model}: {slot.reason}" for slot in models if slot.gate is Gate.FAILED)
    return replace(
        common,
        gate=_together({slot.gate for slot in models}),
        epoch=max((slot.epoch for slot in models), default=0),
        listed=tuple(dict.fromkeys(name for slot in models for name in slot.models)),
        waits=True,
        reason="; ".join(reasons),
        hold_ms=max((slot.hold_ms for slot in models), default=1000 * HOLD_SECONDS),
    )


def _together(gates: set[Gate]) -> Gate:
    if not gates or Gate.CLOSED in gates:
        return Gate.CLOSED
    return Gate.OPEN if Gate.OPEN in gates else Gate.FAILED


class _Pods:
    """Pods of Ray clusters or of a ModelServer that receive requests, and their servers, in fixed order."""

    def __init__(self, pods: Iterable[Mapping[str, Any]], gate: Mapping[str, Any], ports: Ports) -> None:
        self._ports = ports
        self._backends = {
            cluster: backend
            for backend in mappings(gate.get("backends"))
            if (cluster := text(backend.get("cluster"))) and _weight(backend) > 0
        }
        self._heads: dict[str, str] = {}
        """Clusters of head pods, by address."""
        self._workers: dict[str, dict[str, str]] = {}
        """Clusters of worker pods, by worker group and address."""
        self._uids: dict[str, str] = {}
        """UIDs of worker pods, by address."""
        for pod in pods:
            metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
            labels, host = mapping(metadata.get("labels")), text(status.get("podIP"))
            cluster = text(labels.get(names.RAY_CLUSTER_LABEL)) or text(labels.get(names.INSTANCE_LABEL))
            # The address of an ended pod may already belong to another pod.
            ended = metadata.get("deletionTimestamp") or status.get("phase") in ("Failed", "Succeeded")
            if cluster not in self._backends or not host or ended:
                continue
            runs = text(self._backends[cluster].get("configurationHash"))
            if runs and labels.get(names.CONFIGURATION_LABEL) != runs:
                continue  # no pod with this configuration has answered yet
            if labels.get(names.RAY_NODE_TYPE_LABEL) == "head":
                self._heads[host] = cluster
            elif group := text(labels.get(names.MODEL_LABEL)):
                self._workers.setdefault(group, {})[host] = cluster
                self._uids[host] = text(metadata.get("uid"))

    def proxies(
        self, model: str, *, backup: bool = False, limit: int = 0, each: int = 1
    ) -> tuple[Server, ...]:
        """Return the Serve proxies of the clusters that serve a model, or of all; they forward to any model.

        Each accepts `limit` requests for every replica of the model in its cluster; 0 is unlimited. `each`:
        number of pods of a replica.
        """
        weights = self._weights(model)
        replicas = Counter(self._workers.get(names.worker_group(model), {}).values())
        return tuple(
            Server(
                host,
                self._ports.serve,
                backup,
                limit * max(1, math.ceil(replicas[cluster] / each)),
                weights[cluster],
                cluster,
            )
            for host, cluster in sorted(self._heads.items())
            if cluster in weights
        )

    def replicas(self, model: str, limit: int) -> tuple[Server, ...]:
        """Return the replicas of a model, which accept `limit` concurrent requests each."""
        weights = self._weights(model)
        return tuple(
            Server(host, self._port(cluster), False, limit, weights[cluster], cluster, self._uids[host])
            for host, cluster in sorted(self._workers.get(names.worker_group(model), {}).items())
            if cluster in weights
        )

    def _port(self, cluster: str) -> int:
        """Return the port of the replicas of a cluster."""
        return whole(self._backends[cluster].get("port")) or self._ports.replica

    def _weights(self, model: str) -> dict[str, int]:
        """Return the weights of the clusters that serve a model. A single cluster needs none."""
        found = {
            cluster: _weight(backend)
            for cluster, backend in self._backends.items()
            if not model or not isinstance(backend.get("models"), list) or model in backend["models"]
        }
        return found if len(found) > 1 else dict.fromkeys(found, 1)


def _weight(backend: Mapping[str, Any]) -> int:
    return min(_count(backend.get("weight"), MOST_WEIGHT), MOST_WEIGHT)


def _choice(routing: Mapping[str, Any], most: int) -> Choice | None:
    """Return the replica selection, or None for the least busy replica.

    PowerOfTwo equals the latter if all loads are known.
    """
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


def _pods_per_replica(model: Mapping[str, Any]) -> int:
    """Return the number of pods of a replica: one, or one for each pipeline stage if nodes may differ."""
    together = model.get("placement") == STRICT_PACK
    return 1 if together else max(1, whole(at(model, "parallelism").get("pipeline")))


def _most_ongoing(model: Mapping[str, Any]) -> int:
    return _count(at(model, "serve").get("maxOngoingRequests"), MAX_ONGOING)


def _most_queued(model: Mapping[str, Any], running: int) -> int:
    """Return the maximum number of queued requests, by default the capacity of all replicas."""
    return _count(at(model, "serve").get("maxQueuedRequests"), max(MAX_QUEUED, running))


def _count(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(text(each) for each in value if text(each)) if isinstance(value, list) else ()


def _bytes(value: Any) -> int:
    if value is None:
        return MAX_BODY_BYTES
    try:
        return int(parse_quantity(str(value)))
    except ValueError:
        return MAX_BODY_BYTES


class Claims:
    """Assignment of ports to services."""

    def __init__(self) -> None:
        self._by_name: dict[str, DesiredService] = {}
        self._by_port: dict[int, dict[str, DesiredService]] = {}

    def put(self, name: str, claim: DesiredService | None) -> set[int]:
        """Update the claim of a service; None: it has none. Returns the ports that may have changed."""
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

    def holder(self, port: int) -> DesiredService | None:
        """Return the owner of a port: the oldest service that claims it, or None."""
        return min(self._by_port.get(port, {}).values(), key=lambda claim: claim.seniority, default=None)

    def names(self) -> set[str]:
        """Return the names of all services that claim a port."""
        return set(self._by_name)
