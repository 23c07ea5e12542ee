"""What HAProxy should be told of a service, from its LLMService and its head pods: pure, and lenient.

Each service is read for itself, since a manifest of one that nobody can read must not stop the others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.api import names
from daybreak.api.scalars import parse_quantity
from daybreak.api.status import GateState
from daybreak.gateway.servers import Address
from daybreak.gateway.table import Gate, Service
from daybreak.lifecycle.reading import at, mapping, mappings, text, whole

GATES = {GateState.OPEN: Gate.OPEN, GateState.CLOSED: Gate.CLOSED, GateState.FAILED: Gate.FAILED}
MAX_HELD = 1000
MAX_BODY_BYTES = 10 * 2**20
HOLD_SECONDS = 300
"""What is used where the LLMService says nothing that can be read."""


@dataclass(frozen=True)
class Wanted:
    """One service as HAProxy should have it."""

    uid: str
    """The LLMService itself: another one of the same name is another service."""
    created: str
    """When it was created, as Kubernetes writes it: the older one keeps a port that two were given."""
    port: int
    service: Service
    addresses: tuple[Address, ...]

    @property
    def seniority(self) -> tuple[str, str]:
        """The lower one keeps the port."""
        return self.created, self.service.name


def wanted(
    manifest: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    serve_port: int,
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
        keys=keys,
    )
    return Wanted(
        uid=text(metadata.get("uid")),
        created=text(metadata.get("creationTimestamp")),
        port=port,
        service=service,
        addresses=addresses(pods, text(gate.get("cluster")), serve_port),
    )


def addresses(pods: Iterable[Mapping[str, Any]], cluster: str, serve_port: int) -> tuple[Address, ...]:
    """Where the Serve proxies of a RayCluster's head pods listen, in a fixed order."""
    found = set()
    for pod in pods:
        metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
        labels, host = mapping(metadata.get("labels")), text(status.get("podIP"))
        ended = metadata.get("deletionTimestamp") or status.get("phase") in ("Failed", "Succeeded")
        if not cluster or labels.get(names.RAY_CLUSTER_LABEL) != cluster:
            continue
        # The address of a pod that has ended may be another pod's by now.
        if labels.get(names.RAY_NODE_TYPE_LABEL) == "head" and host and not ended:
            found.add(Address(host, serve_port))
    return tuple(sorted(found))


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
