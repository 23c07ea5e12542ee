"""Apply of desired objects: compares them with live objects and writes only differences."""

from typing import Any

import structlog

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.kube.client import APPLY, JSON_PATCH, Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing import managed_fields
from daybreak.manifests import compare, resources
from daybreak.manifests.keys import Key, OwnerKey, key_of

MANAGER = {"fieldManager": names.FIELD_MANAGER}
SERVER_SIDE_APPLY = {**MANAGER, "force": "true"}

log = structlog.get_logger("daybreak.apply")


class Occupied(Exception):
    """An object to create already exists and may have another owner."""


class Applier:
    """Writes changed owned objects with one field manager.

    A missing object is created by a POST, which cannot take over another owner's object. An existing one is
    changed by server-side apply.
    """

    def __init__(self, api: Api, cache: Cache) -> None:
        self._api = api
        self._cache = cache
        self._doubted: dict[OwnerKey, set[tuple[Resource, Key]]] = {}
        """Names that were taken when an object was to be created, by owner."""
        self._contended: dict[OwnerKey, dict[tuple[Resource, Key], tuple[str, str]]] = {}
        """Objects that did not become the desired ones: digest of the desired object and content of the live
        one, by owner."""

    def forget(self, owner: OwnerKey) -> None:
        """Drop the records of a deleted owner."""
        self._doubted.pop(owner, None)
        self._contended.pop(owner, None)

    async def live(self, manifest: Manifest) -> dict[str, Any] | None:
        """Return the known live object of any owner.

        The cache holds only objects with Daybreak's label. Other objects are read from the API server after a
        conflict has shown that their name is taken.
        """
        resource, key = resources.of(manifest), key_of(manifest)
        found = self._cache.get(resource, key)
        doubted = self._doubted.get(_owner(manifest), set())
        if found is None and (resource, key) in doubted:
            found = await self._api.find(resource, resource.path(key.namespace, key.name))
            if found is None:
                doubted.discard((resource, key))
        return found

    async def apply(self, desired: Manifest, live: Manifest | None) -> bool:
        """Apply a desired object. Return True if the object was written.

        Raises:
            Occupied: The live object is unknown, and its name is taken.
        """
        resource, key, expected = resources.of(desired), key_of(desired), compare.stamped(desired)
        contended = self._contended.setdefault(_owner(desired), {})
        if live is not None:
            different = compare.difference(expected, live)
            observed = compare.digest(desired), _content(live)
            if not different or contended.get((resource, key)) == observed:
                return False
        with self._cache.writing(resource, key) as take:
            if live is None:
                written = await self._create(resource, key, expected)
            else:
                written = await self._change(resource, key, expected, live)
            # Its controller may have written the status since the object was read.
            take(written, live is not None and live.get("status") != written.get("status"))
        left = compare.difference(expected, written)
        if left:
            # A webhook or another controller overwrites the field: do not repeat the write until one of the
            # two sides changes.
            log.warning("Applied field was overwritten", kind=resource.kind, object=str(key), field=left)
            contended[resource, key] = compare.digest(desired), _content(written)
        else:
            contended.pop((resource, key), None)
        return True

    async def _create(self, resource: Resource, key: Key, desired: Manifest) -> dict[str, Any]:
        path = resource.path(key.namespace)
        try:
            return await self._api.request("create", resource, path, query=MANAGER, body=desired)
        except ApiError as error:
            if not error.exists:
                raise
            self._doubted.setdefault(_owner(desired), set()).add((resource, key))
            raise Occupied(str(key)) from error

    async def _change(
        self, resource: Resource, key: Key, desired: Manifest, live: Manifest
    ) -> dict[str, Any]:
        path = resource.path(key.namespace, key.name)
        if managed_fields.made_by_us(live):
            found = await self._api.request("get", resource, path)
            patch = managed_fields.hand_over(found)
            if patch:
                await self._api.request("patch", resource, path, body=patch, content_type=JSON_PATCH)
        return await self._api.request(
            "apply", resource, path, query=SERVER_SIDE_APPLY, body=desired, content_type=APPLY
        )

    async def delete(self, live: Manifest) -> None:
        """Delete exactly this version of an object; a changed or deleted object is left alone."""
        resource, key, metadata = resources.of(live), key_of(live), live["metadata"]
        precondition = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        # By default, a deleted Job would leave its pods behind.
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": precondition,
            "propagationPolicy": "Background",
        }
        try:
            await self._api.request("delete", resource, resource.path(key.namespace, key.name), body=body)
        except ApiError as error:
            if not error.not_found:
                raise
        self._contended.get(_owner(live), {}).pop((resource, key), None)


def _owner(manifest: Manifest) -> OwnerKey:
    """Return the owner that an object's label names."""
    metadata = manifest["metadata"]
    return OwnerKey.of_label(
        metadata.get("namespace", ""), names.labelled_owner(metadata.get("labels")) or ""
    )


def _content(live: Manifest) -> str:
    """Return the digest of the parts of an object that a user can change."""
    metadata = live["metadata"]
    kept = {name: metadata.get(name) for name in ("labels", "annotations", "ownerReferences", "finalizers")}
    rest = {name: value for name, value in live.items() if name not in ("metadata", "status")}
    return compare.digest({**rest, "metadata": kept})
