"""Observation of a namespace's LLMRoutes: plain data without a client."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, text
from daybreak.api.gates import served_models
from daybreak.api.gates.gate_state import GateState
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.references import ModelReference
from daybreak.api.llmroute.status import BackendState
from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.protocol.tallies import GatewayTally

_STATES = {
    GateState.OPEN: BackendState.OPEN,
    GateState.CLOSED: BackendState.HOLDING,
    GateState.FAILED: BackendState.FAILED,
}


Models = Mapping[str, BackendState]
"""States of a service's models, adapters included, by name."""


@dataclass(frozen=True, order=True)
class ServiceName:
    """Kind and name of an object that serves models."""

    kind: str
    """LLMService, ModelServer, or another kind whose model names are served at the address `llm`."""
    name: str

    @property
    def words(self) -> str:
        """Return the kind and name for display."""
        return f"{self.kind} {self.name}"


def service_of(reference: ModelReference) -> ServiceName:
    """Return the object that must serve the referenced model."""
    return ServiceName(reference.kind, reference.service)


@dataclass(frozen=True)
class OwnAddress:
    """Dedicated address that a route requests."""

    port: int | None
    """Gateway port of the address. None if all ports are allocated."""
    foreign: str = ""
    """Object of another owner with the name of the address, as `Kind/name`."""
    leaving: bool = False
    """True if an existing object must be deleted before the route's Service can be created."""
    refusal: str = ""
    """Object that the API server rejected, with its message; empty if there is none."""
    there: bool = False
    """True if the Service exists."""


@dataclass(frozen=True)
class ObservedRoute:
    """Observation of one LLMRoute."""

    manifest: Manifest
    route: LLMRoute | None
    """Parsed route. None if its spec is invalid."""
    problem: str = ""
    """Reason why the spec is invalid."""
    reported: tuple[GatewayTally, ...] = ()
    """Request counts of the route's backends, as reported by each gateway."""
    address: OwnAddress | None = None
    """Dedicated address. None if the route requests none."""

    @property
    def name(self) -> str:
        """Return the name of the route."""
        return text(mapping(self.manifest.get("metadata")).get("name"))

    @property
    def status(self) -> Manifest:
        """Return the previous status of the route."""
        return mapping(self.manifest.get("status"))

    @property
    def seniority(self) -> tuple[str, str]:
        """Return the sort key of the route's age: the lowest one keeps a name that two routes claim.

        The creation time has a resolution of one second, as Kubernetes writes it.
        """
        return text(mapping(self.manifest.get("metadata")).get("creationTimestamp")), self.name


@dataclass(frozen=True)
class Observed:
    """Observation of a namespace with LLMRoutes."""

    routes: tuple[ObservedRoute, ...]
    """Routes of the namespace, oldest first."""
    services: Mapping[ServiceName, Models]
    """Models of each service of the namespace."""
    keys: Mapping[ServiceName, Collection[str]] = field(default_factory=dict)
    """Names of the API keys of each service."""
    protocols: Mapping[ServiceName, str] = field(default_factory=dict)
    """Protocols of the services that do not serve OpenAI's API."""
    gateway: bool = True
    """True if this installation has gateways."""


def observe_route(manifest: Manifest, reported: tuple[GatewayTally, ...] = ()) -> ObservedRoute:
    """Parse an LLMRoute manifest."""
    try:
        return ObservedRoute(manifest, LLMRoute.from_manifest(manifest), reported=reported)
    except InvalidSpec as error:
        return ObservedRoute(manifest, None, str(error), reported)


def models(service: Manifest) -> dict[str, BackendState]:
    """Return the states of a service's models: those in its gates and those in its spec.

    A service without OpenAI's API has none, because its requests name no model.
    """
    if served_models.protocol(service):
        return {}
    found = dict.fromkeys(served_models.of_spec(at(service, "spec")), BackendState.PENDING)
    if text(service.get("kind")) == SERVE_APPLICATIONS.kind:  # one gate for the whole application
        return found
    for entry in mappings(at(service, "status", "gate").get("models")):
        # An unknown state is from a newer operator: requests are held.
        state = _STATES.get(text(entry.get("state")), BackendState.HOLDING)  # type: ignore[call-overload]
        found |= dict.fromkeys(served_models.of_gate(entry), state)
    return found


def keys(service: Manifest) -> frozenset[str]:
    """Return the names of a service's API keys, as its gateway uses them."""
    found = set()
    for each in mappings(at(service, "spec", "access").get("apiKeys")):
        secret = mapping(each.get("secretRef"))
        found.add(text(each.get("name")) or f"{text(secret.get('name'))}/{text(secret.get('key'))}")
    return frozenset(found)
