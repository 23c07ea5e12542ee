"""Gathering, once, what one reconcile of an object that becomes one job decides on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Generic

from daybreak.api.schema.resource import Resource
from daybreak.jobs.observed import Seen
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.control import is_controlled_by
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import PODS

Look = Callable[[Mapping[str, Any], datetime], Seen]
"""Reads what an object itself says, at that time."""


class JobObserver(Generic[Seen]):
    """Reads the cache; asks the API server nothing.

    Args:
        cache: What is known of the cluster.
        resource: The kind.
        job: The kind of its jobs.
        job_name: Name of the job of an object.
        look: Reads the object itself.
    """

    def __init__(
        self,
        cache: Cache,
        resource: Resource,
        job: Resource,
        job_name: Callable[[str], str],
        look: Look[Seen],
    ) -> None:
        self._cache = cache
        self._resource = resource
        self._job = job
        self._job_name = job_name
        self._look = look

    def observe(self, key: Key) -> Seen | None:
        """What is seen of an object, or None when there is none."""
        manifest = self._cache.get(self._resource, key)
        return None if manifest is None else self.again(key, self._look(manifest, datetime.now(UTC)))

    def again(self, key: Key, seen: Seen) -> Seen:
        """The objects of now, with the spec of that observation."""
        job = self._cache.get(self._job, Key(key.namespace, self._job_name(key.name)))
        mine = job is not None and is_controlled_by(job, seen.manifest["metadata"]["uid"])
        return replace(
            seen,
            now=datetime.now(UTC),
            job=job if mine else None,
            pods=tuple(self._cache.owned_by(OwnerKey(self._resource.kind, *key), PODS)),
        )
