"""Making a live object what it should be: compare, and write only on difference."""

from collections.abc import Mapping
from typing import Any

import structlog

from daybreak.api import names
from daybreak.kube import compare, resources
from daybreak.kube.cache import Cache, Key, controller
from daybreak.kube.client import APPLY, Api
from daybreak.kube.errors import ApiError
from daybreak.kube.resources import Resource

Manifest = Mapping[str, Any]

SERVER_SIDE_APPLY = {"fieldManager": names.FIELD_MANAGER, "force": "true"}

log = structlog.get_logger("daybreak.apply")


def key_of(manifest: Manifest) -> Key:
    """Namespace and name of an object."""
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


def is_controlled_by(manifest: Manifest, uid: str) -> bool:
    """Whether an object is controlled by the object of that uid."""
    owner = controller(manifest)
    return owner is not None and owner.get("uid") == uid


def is_orphan_of(manifest: Manifest, service: str) -> bool:
    """Whether nobody controls an object that bears our labels, and so may be taken back.

    `kubectl delete --cascade=orphan` leaves such objects behind.
    """
    if controller(manifest) is not None:
        return False
    labels = manifest["metadata"].get("labels") or {}
    return (
        labels.get(names.MANAGED_BY_LABEL) == names.MANAGED_BY and labels.get(names.SERVICE_LABEL) == service
    )


class Occupied(Exception):
    """An object that should be made is there already: look whose it is."""


class Applier:
    """Writes owned objects by server-side apply, with one field manager, and nothing when nothing differs."""

    def __init__(self, api: Api, cache: Cache) -> None:
        self._api = api
        self._cache = cache
        self._doubted: set[tuple[Resource, Key]] = set()
        """Names that were taken when an object of ours should have been made."""
        self._contended: dict[tuple[Resource, Key], tuple[str, str]] = {}
        """Objects that do not become what was asked for, by digest and the version at which that was seen."""

    async def live(self, manifest: Manifest) -> dict[str, Any] | None:
        """The object as it is, whoever it belongs to, as far as is known.

        The cache holds only objects with our label. What it does not know is asked for once it has turned out
        that the name is taken.
        """
        resource, key = resources.of(manifest), key_of(manifest)
        found = self._cache.get(resource, key)
        if found is None and (resource, key) in self._doubted:
            found = await self._api.find(resource, resource.path(key.namespace, key.name))
            if found is None:
                self._doubted.discard((resource, key))
        return found

    async def apply(self, desired: Manifest, live: Manifest | None) -> bool:
        """Make the live object what is desired. Returns whether something was written.

        Raises Occupied when the object is not known and its name is taken.
        """
        resource, key, wanted = resources.of(desired), key_of(desired), compare.stamped(desired)
        if live is not None:
            different = compare.difference(wanted, live)
            seen = compare.digest(desired), _content(live)
            if not different or self._contended.get((resource, key)) == seen:
                return False
        path = resource.path(key.namespace, key.name)
        body = wanted if live is not None else _only_new(wanted)
        with self._cache.writing(resource, key) as take:
            try:
                written = await self._api.request(
                    "apply", resource, path, query=SERVER_SIDE_APPLY, body=body, content_type=APPLY
                )
            except ApiError as error:
                if live is None and error.conflict:
                    self._doubted.add((resource, key))
                    raise Occupied(str(key)) from error
                raise
            self._doubted.discard((resource, key))
            # Its controller may have spoken since it was read.
            take(written, live is not None and live.get("status") != written.get("status"))
        left = compare.difference(wanted, written)
        if left:
            # Somebody's webhook or controller holds the field: once is enough, until one of the two moves.
            log.warning("not what was applied", kind=resource.kind, object=str(key), field=left)
            self._contended[resource, key] = compare.digest(desired), _content(written)
        else:
            self._contended.pop((resource, key), None)
        return True

    async def delete(self, live: Manifest) -> None:
        """Delete this very object, in this very version; one that has changed or gone is left alone."""
        resource, key, metadata = resources.of(live), key_of(live), live["metadata"]
        precondition = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": precondition}
        try:
            await self._api.request("delete", resource, resource.path(key.namespace, key.name), body=body)
        except ApiError as error:
            if not error.not_found:
                raise
        self._contended.pop((resource, key), None)


def _only_new(wanted: Manifest) -> dict[str, Any]:
    """The manifest as one that makes an object, and meets a conflict when there is one of that name.

    An apply that names a version is refused when the object has another one; no object has this one, the
    version of an empty etcd.
    """
    return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": "1"}}


def _content(live: Manifest) -> str:
    """Digest of what a person can change in an object."""
    metadata = live["metadata"]
    kept = {name: metadata.get(name) for name in ("labels", "annotations", "ownerReferences", "finalizers")}
    rest = {name: value for name, value in live.items() if name not in ("metadata", "status")}
    return compare.digest({**rest, "metadata": kept})
