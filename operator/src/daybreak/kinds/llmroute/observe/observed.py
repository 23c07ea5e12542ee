"""What is seen of a namespace whose LLMRoutes are looked at: plain data, without a client."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from daybreak.api.common.custom_object import InvalidSpec
from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, text
from daybreak.api.gates.gate_status import GateState
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.status import BackendState
from daybreak.gates.gateways.tallies import Told

_STATES = {
    GateState.OPEN: BackendState.OPEN,
    GateState.CLOSED: BackendState.HELD,
    GateState.FAILED: BackendState.FAILED,
}


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
    services: Mapping[str, Mapping[str, BackendState]]
    """The models of each LLMService, adapters included, and how they are."""
    keys: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names of the API keys of each LLMService."""
    gateway: bool = True
    """Whether there are gateways in this installation."""


def seen_route(manifest: Manifest, told: tuple[Told, ...] = ()) -> SeenRoute:
    """Read an LLMRoute."""
    try:
        return SeenRoute(manifest, LLMRoute.from_manifest(manifest), told=told)
    except InvalidSpec as error:
        return SeenRoute(manifest, None, str(error), told)


def models(service: Manifest) -> dict[str, BackendState]:
    """The models of an LLMService, and how they are: those that can be asked for, and those of the spec."""
    found = {
        text(model.get("name")): BackendState.PENDING
        for model in mappings(at(service, "spec").get("models"))
        if text(model.get("name"))
    }
    for entry in mappings(at(service, "status", "gate").get("models")):
        # A state of a newer operator that is unknown here: requests are held.
        state = _STATES.get(text(entry.get("state")), BackendState.HELD)  # type: ignore[call-overload]
        adapters = entry.get("adapters")
        for name in (entry.get("name"), *(adapters if isinstance(adapters, list) else ())):
            if text(name):
                found[text(name)] = state
    return found


def keys(service: Manifest) -> frozenset[str]:
    """The names of the API keys of an LLMService, as its gateway has them."""
    found = set()
    for each in mappings(at(service, "spec", "access").get("apiKeys")):
        secret = mapping(each.get("secretRef"))
        found.add(text(each.get("name")) or f"{text(secret.get('name'))}/{text(secret.get('key'))}")
    return frozenset(found)
