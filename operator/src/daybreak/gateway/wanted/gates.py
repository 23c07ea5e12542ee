"""What HAProxy should be told of a service, from its object and its pods: pure, and lenient.

Each service is read for itself, since a manifest of one that nobody can read must not stop the others.
"""

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
"""What the gateway lets through, by the protocol. One of a newer operator that is unknown here: anything."""
GATES = {GateState.OPEN: Gate.OPEN, GateState.CLOSED: Gate.CLOSED, GateState.FAILED: Gate.FAILED}
STRICT_PACK = "STRICT_PACK"
"""The placement that has a replica's pipeline in one pod."""
MAX_HELD = 1000
MAX_BODY_BYTES = 10 * 2**20
HOLD_SECONDS = 300
MAX_ONGOING = 256
MAX_QUEUED = 1000
DEPLOYMENT_ONGOING = 5
FALLBACK_REPLICAS = 2
IMBALANCED_THRESHOLD = 16
MOST_WEIGHT = 100
"""What is used where the spec says nothing that can be read."""


@dataclass(frozen=True)
class Ports:
    """Where Ray pods listen for requests."""

    serve: int = 8000
    """Serve's proxy, in head pods."""
    replica: int = 8100
    """A replica's own server, in the worker pods of its model."""


@dataclass(frozen=True, slots=True)
class WantedGate:
    """One gate as HAProxy should have it."""

    slot: Slot
    servers: tuple[Server, ...]
    pods: int = 1
    """Pods of each replica, of which one listens. Nothing of a pod says which."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One service as HAProxy should have it."""

    uid: str
    """The object itself: another one of the same name is another service."""
    created: str
    """When it was created, as Kubernetes writes it: the older one keeps a port that two were given."""
    port: int
    front: WantedGate
    """What takes the requests whose model is not known, where there are several; Serve's proxies know it."""
    gates: tuple[WantedGate, ...]
    """A gate for each model."""

    @property
    def name(self) -> str:
        """The service's."""
        return self.front.slot.service

    @property
    def models(self) -> Sequence[str]:
        """Names that requests to it may bear."""
        return self.front.slot.listed

    @property
    def seniority(self) -> tuple[str, str]:
        """The lower one keeps the port."""
        return self.created, self.name


def wanted(
    manifest: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    ports: Ports,
    keys: tuple[ApiKey, ...] = (),
) -> Wanted | None:
    """What is to be programmed for a workload, or None while the operator has given it no gate.

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
    # A model that the spec does not have any more is still served while its successor starts.
    gates = tuple(
        _model_gate(common, entry, written.get(name, {}), found) for name, entry in entries.items() if name
    )
    if application:
        gates = tuple(_application_gate(gate, manifest, found) for gate in gates)
    elif common.paths:
        # Its requests bear no name of a model, so none leads to it.
        gates = tuple(replace(gate, slot=replace(gate.slot, models=())) for gate in gates)
    return Wanted(
        uid=text(metadata.get("uid")),
        created=text(metadata.get("creationTimestamp")),
        port=port,
        front=WantedGate(_front(common, [each.slot for each in gates]), found.proxies("")),
        gates=gates,
    )


def _routes(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Prefixes of the paths that pass; none: all do."""
    prefixes = [text(route.get("prefix")) for route in mappings(at(manifest, "spec").get("routes"))]
    plain = [each.strip("/") for each in prefixes if each]
    return tuple(dict.fromkeys(f"{each}/" for each in plain)) if all(plain) else ()


def _probes(checks: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what marks a request that does not count as activity."""
    marks = {"userAgents": "agent/", "keys": "key/", "paths": "path"}
    return tuple(
        f"{mark}{each}" for field, mark in marks.items() for each in dict.fromkeys(_texts(checks.get(field)))
    )


def _application_gate(gate: WantedGate, manifest: Mapping[str, Any], pods: "_Pods") -> WantedGate:
    """The gate of an application: any request to its port is for it, or one with a name of its models."""
    models = _texts(at(manifest, "spec").get("models")) if not gate.slot.paths else ()
    most = sum(map(_most_at_once, mappings(at(manifest, "spec").get("deployments"))))
    # Each request is one of some deployment's at least. Which one takes them first the spec does not say.
    slot = replace(gate.slot, models=models, queue=max(MAX_QUEUED, most))
    return WantedGate(slot, pods.proxies("", limit=most))


def _most_at_once(deployment: Mapping[str, Any]) -> int:
    """Requests that all replicas of an application's deployment take at a time, when it has most of them."""
    replicas = mapping(deployment.get("autoscaling")).get("maxReplicas", deployment.get("numReplicas"))
    return _count(deployment.get("maxOngoingRequests"), DEPLOYMENT_ONGOING) * max(1, _count(replicas, 1))


def _models(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The models of a spec: several of an LLMService, the one of a ModelServer."""
    only = mapping(spec.get("model"))
    if not only:
        return mappings(spec.get("models"))
    return [{**only, "serve": {"maxOngoingRequests": spec.get("maxOngoingRequests")}}]


def _check(gate: Mapping[str, Any]) -> str:
    """Path at which all servers are asked whether they are well; empty: that of Ray pods."""
    paths = {text(backend.get("healthPath")) for backend in mappings(gate.get("backends"))}
    path = paths.pop() if len(paths) == 1 else ""
    return path if path.startswith("/") else ""


def _model_gate(
    common: Slot, entry: Mapping[str, Any], written: Mapping[str, Any], pods: "_Pods"
) -> WantedGate:
    """A model's gate, from its entry in the status and its place in the spec."""
    name, limit, direct = text(entry.get("name")), _most_ongoing(written), common.replicas_listen
    adapters = _texts(entry.get("adapters"))
    # Serve's proxy chooses itself; it gets as much as its cluster's replicas take.
    replicas, each = pods.replicas(name, limit), _pods_per_replica(written)
    slot = replace(
        common,
        model=name,
        # A state of a newer operator that is unknown here: to hold loses nothing.
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
        return WantedGate(slot, (*replicas, *pods.proxies(name, backup=True)), each)
    return WantedGate(slot, pods.proxies(name, limit=limit, each=each))


def _front(common: Slot, models: Sequence[Slot]) -> Slot:
    """What takes the requests whose model is not known: they may be for any of them, so they wait for all."""
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
    """The pods that requests go to, of Ray clusters or of a ModelServer, and the servers in them, in a fixed
    order."""

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
        """The same of worker pods, by worker group."""
        self._uids: dict[str, str] = {}
        """Worker pods themselves, by address."""
        for pod in pods:
            metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
            labels, host = mapping(metadata.get("labels")), text(status.get("podIP"))
            cluster = text(labels.get(names.RAY_CLUSTER_LABEL)) or text(labels.get(names.INSTANCE_LABEL))
            # The address of a pod that has ended may be another pod's by now.
            ended = metadata.get("deletionTimestamp") or status.get("phase") in ("Failed", "Succeeded")
            if cluster not in self._backends or not host or ended:
                continue
            runs = text(self._backends[cluster].get("configurationHash"))
            if runs and labels.get(names.CONFIGURATION_LABEL) != runs:
                continue  # nothing like it has answered yet
            if labels.get(names.RAY_NODE_TYPE_LABEL) == "head":
                self._heads[host] = cluster
            elif group := text(labels.get(names.MODEL_LABEL)):
                self._workers.setdefault(group, {})[host] = cluster
                self._uids[host] = text(metadata.get("uid"))

    def proxies(
        self, model: str, *, backup: bool = False, limit: int = 0, each: int = 1
    ) -> tuple[Server, ...]:
        """The Serve proxies of the clusters that serve a model, or of all; they hand on to any model.

        Each takes so many requests for every replica of the model in its cluster; 0: any number. `each`: how
        many pods a replica has.
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
        """The replicas of a model, which take so many requests each at a time."""
        weights = self._weights(model)
        return tuple(
            Server(host, self._port(cluster), False, limit, weights[cluster], cluster, self._uids[host])
            for host, cluster in sorted(self._workers.get(names.worker_group(model), {}).items())
            if cluster in weights
        )

    def _port(self, cluster: str) -> int:
        """Where its replicas listen."""
        return whole(self._backends[cluster].get("port")) or self._ports.replica

    def _weights(self, model: str) -> dict[str, int]:
        """Weights of the clusters that serve a model. One alone needs none."""
        found = {
            cluster: _weight(backend)
            for cluster, backend in self._backends.items()
            if not model or not isinstance(backend.get("models"), list) or model in backend["models"]
        }
        return found if len(found) > 1 else dict.fromkeys(found, 1)


def _weight(backend: Mapping[str, Any]) -> int:
    return min(_count(backend.get("weight"), MOST_WEIGHT), MOST_WEIGHT)


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


def _pods_per_replica(model: Mapping[str, Any]) -> int:
    """One, or one for each stage of its pipeline where nodes may differ."""
    together = model.get("placement") == STRICT_PACK
    return 1 if together else max(1, whole(at(model, "parallelism").get("pipeline")))


def _most_ongoing(model: Mapping[str, Any]) -> int:
    return _count(at(model, "serve").get("maxOngoingRequests"), MAX_ONGOING)


def _most_queued(model: Mapping[str, Any], running: int) -> int:
    """Requests that may wait for a replica; unless the spec says it, as many as all of them run at a time."""
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
