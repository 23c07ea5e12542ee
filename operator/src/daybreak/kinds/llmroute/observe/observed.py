"""What is seen of a namespace whose LLMRoutes are looked at: plain data, without a client."""

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
from daybreak.protocol.tallies import Told

_STATES = {
    GateState.OPEN: BackendState.OPEN,
    GateState.CLOSED: BackendState.HOLDING,
    GateState.FAILED: BackendState.FAILED,
}


Models = Mapping[str, BackendState]
"""The models of a service, adapters included, and how they are."""


@dataclass(frozen=True, order=True)
class ServiceName:
    """An object that serves models."""

    kind: str
    """LLMService, ModelServer, or another kind whose models have names at the address `llm`."""
    name: str

    @property
    def words(self) -> str:
        """In words."""
        return f"{self.kind} {self.name}"


def service_of(reference: ModelReference) -> ServiceName:
    """The object that is to serve a model."""
    return ServiceName(reference.kind, reference.service)


@dataclass(frozen=True)
class OwnAddress:
    """The own address that a route asks for."""

    port: int | None
    """The gateway's port for it; None: all are given."""
    foreign: str = ""
    """Somebody else's object that has its name, as `Kind/name`."""
    leaving: bool = False
    """Whether an object is still there that must go before the route's own comes."""
    refusal: str = ""
    """What the API server has refused, with its words; empty: nothing."""
    there: bool = False
    """Whether the Service is there."""


@dataclass(frozen=True)
class SeenRoute:
    """One LLMRoute."""

    manifest: Manifest
    route: LLMRoute | None
    """None: its spec cannot be used."""
    problem: str = ""
    """Why not."""
    told: tuple[Told, ...] = ()
    """What each gateway has told of what its backends have got."""
    address: OwnAddress | None = None
    """Its own address; None: it asks for none."""

    @property
    def name(self) -> str:
        """Its name."""
        return text(mapping(self.manifest.get("metadata")).get("name"))

    @property
    def status(self) -> Manifest:
        """What was said of it before."""
        return mapping(self.manifest.get("status"))

    @property
    def seniority(self) -> tuple[str, str]:
        """The lower one keeps a name that two have. To the second, as Kubernetes writes it."""
        return text(mapping(self.manifest.get("metadata")).get("creationTimestamp")), self.name


@dataclass(frozen=True)
class Observed:
    """A namespace with LLMRoutes."""

    routes: tuple[SeenRoute, ...]
    """Oldest first."""
    services: Mapping[ServiceName, Models]
    """The models of each service of the namespace."""
    keys: Mapping[ServiceName, Collection[str]] = field(default_factory=dict)
    """The names of the API keys of each."""
    protocols: Mapping[ServiceName, str] = field(default_factory=dict)
    """What those speak that do not speak OpenAI's API."""
    gateway: bool = True
    """Whether there are gateways in this installation."""


def seen_route(manifest: Manifest, told: tuple[Told, ...] = ()) -> SeenRoute:
    """Read an LLMRoute."""
    try:
        return SeenRoute(manifest, LLMRoute.from_manifest(manifest), told=told)
    except InvalidSpec as error:
        return SeenRoute(manifest, None, str(error), told)


def models(service: Manifest) -> dict[str, BackendState]:
    """The models of a service, and how they are: those that can be asked for, and those of the spec.

    There are none where it does not speak OpenAI's API: its requests name no model.
    """
    if served_models.protocol(service):
        return {}
    found = dict.fromkeys(served_models.of_spec(at(service, "spec")), BackendState.PENDING)
    if text(service.get("kind")) == SERVE_APPLICATIONS.kind:  # its gate is the whole's, whatever the model
        return found
    for entry in mappings(at(service, "status", "gate").get("models")):
        # A state of a newer operator that is unknown here: requests are held.
        state = _STATES.get(text(entry.get("state")), BackendState.HOLDING)  # type: ignore[call-overload]
        found |= dict.fromkeys(served_models.of_gate(entry), state)
    return found


def keys(service: Manifest) -> frozenset[str]:
    """The names of the API keys of a service, as its gateway has them."""
    found = set()
    for each in mappings(at(service, "spec", "access").get("apiKeys")):
        secret = mapping(each.get("secretRef"))
        found.add(text(each.get("name")) or f"{text(secret.get('name'))}/{text(secret.get('key'))}")
    return frozenset(found)
