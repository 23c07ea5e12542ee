"""What is seen of a ModelServer beside what is seen of any workload with one gate."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.custom_object import read_object
from daybreak.api.common.unstructured import Manifest
from daybreak.api.modelserver import validation
from daybreak.api.modelserver.definition import MODEL_SERVERS, ModelServer
from daybreak.gates.one_gate import observer
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kube.cache import Key
from daybreak.kube.resources import DEPLOYMENTS


class Observer(observer.Observer[Observed]):
    """Reads the cache and what gateways say; asks the API server nothing."""

    resource = MODEL_SERVERS

    def read(self, manifest: Manifest, now: datetime) -> Observed:
        """What its manifest says alone."""
        return Observed(manifest, *read(manifest), now)

    def objects(self, key: Key, seen: Observed) -> Observed:
        """With its Deployment."""
        name = Key(key.namespace, names.server_deployment(key.name))
        return replace(seen, deployment=self._cache.get(DEPLOYMENTS, name))


def read(manifest: Mapping[str, Any]) -> tuple[ModelServer | None, tuple[str, ...]]:
    """A ModelServer from its manifest, and what is wrong with it."""
    return read_object(manifest, ModelServer.from_manifest, validation.problems)
