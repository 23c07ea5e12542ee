"""What is seen of a ModelServer beside what is seen of any workload with one gate."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.custom_object import read_object
from daybreak.api.common.unstructured import Manifest
from daybreak.api.modelserver import validation
from daybreak.api.modelserver.definition import MODEL_SERVERS, ModelServer
from daybreak.api.modelserver.profiles import EngineProfile
from daybreak.controller.parts import Parts
from daybreak.gates.gateways.port_allocator import PortAllocator
from daybreak.gates.one_gate import observer
from daybreak.gates.one_gate.observer import GatewaySource
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kube.resources import DEPLOYMENTS
from daybreak.kube.watching.cache import Key


class Observer(observer.Observer[Observed]):
    """Reads the cache and what gateways say; asks the API server nothing.

    Args:
        parts: What every kind is built with.
        gateways: Knows what gateways say; None: there are none.
        ports: Gives out the gateways' ports.
        engines: The engines that there are, by their names.
    """

    resource = MODEL_SERVERS

    def __init__(
        self,
        parts: Parts,
        gateways: GatewaySource | None,
        ports: PortAllocator,
        engines: Mapping[str, EngineProfile],
    ) -> None:
        super().__init__(parts.cache, gateways, ports, parts.nodes, parts.turns)
        self._engines = engines

    def read(self, manifest: Manifest, now: datetime) -> Observed:
        """What its manifest says alone."""
        return Observed(manifest, *read(manifest, self._engines), now)

    def objects(self, key: Key, seen: Observed) -> Observed:
        """With its Deployment."""
        name = Key(key.namespace, names.server_deployment(key.name))
        return replace(seen, deployment=self._cache.get(DEPLOYMENTS, name))


def read(
    manifest: Mapping[str, Any], engines: Mapping[str, EngineProfile] | None = None
) -> tuple[ModelServer | None, tuple[str, ...]]:
    """A ModelServer from its manifest, and what is wrong with it.

    `engines` are those that there are; None: those of every installation.
    """
    return read_object(manifest, partial(ModelServer.from_manifest, engines=engines), validation.problems)
