"""Observation for one reconcile of an object that becomes one job."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Generic

from daybreak.api.schema.resource import Resource
from daybreak.jobs.observed import ObservedT
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.control import is_controlled_by
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import PODS

Look = Callable[[Mapping[str, Any], datetime], ObservedT]
"""Reads an object itself, at a time."""


class JobObserver(Generic[ObservedT]):
    """Observes objects in the cache, without requests to the API server.

    Args:
        cache: State of the cluster.
        resource: Kind of the objects.
        job: Kind of their jobs.
        job_name: Returns the name of an object's job.
        look: Reads an object itself.
    """

    def __init__(
        self,
        cache: Cache,
        resource: Resource,
        job: Resource,
        job_name: Callable[[str], str],
        look: Look[ObservedT],
    ) -> None:
        self._cache = cache
        self._resource = resource
        self._job = job
        self._job_name = job_name
        self._look = look

    def observe(self, key: Key) -> ObservedT | None:
        """Return the observation of an object, or None if there is no such object."""
        manifest = self._cache.get(self._resource, key)
        return None if manifest is None else self.again(key, self._look(manifest, datetime.now(UTC)))

    def again(self, key: Key, observed: ObservedT) -> ObservedT:
        """Return an observation with current objects and the spec of a previous observation."""
        job = self._cache.get(self._job, Key(key.namespace, self._job_name(key.name)))
        mine = job is not None and is_controlled_by(job, observed.manifest["metadata"]["uid"])
        return replace(
            observed,
            now=datetime.now(UTC),
            job=job if mine else None,
            pods=tuple(self._cache.owned_by(OwnerKey(self._resource.kind, *key), PODS)),
        )
