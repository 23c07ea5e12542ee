"""State of the cluster: the last observed state of every watched object.

Objects are stored as compressed JSON, because thousands of Python dictionaries would need a hundred times the
memory. They are read far more rarely than they are kept. The cache never goes backward: it ignores older
versions of an object. Thus an event in flight does not undo the operator's own writes, which are stored
immediately.
"""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from daybreak.api.common import names
from daybreak.api.schema.resource import GROUP, Resource
from daybreak.kube import metrics
from daybreak.kube.watching.trim import of as trim_of
from daybreak.manifests.control import controller
from daybreak.manifests.keys import Key, OwnerKey, gateway_key
from daybreak.manifests.resources import CONFIG_MAPS, NODES

Listener = Callable[[Resource, OwnerKey], None]
"""Called with the changed kind and the concerned owner, or for nodes with the node."""


@dataclass(slots=True)
class _Entry:
    version: int
    uid: str
    at: float
    """Time of the last report about the object, on the monotonic clock."""
    owner: OwnerKey | None
    """Owner of the object."""
    packed: bytes | None
    """Compressed object; None if it was deleted. A deleted entry stays for a while, so that a late response
    does not restore it."""


class Cache:
    """Every watched object, by kind and key."""

    def __init__(self) -> None:
        self._entries: dict[Resource, dict[str, dict[Key, _Entry]]] = {}
        """Entries by namespace, so that a query for one namespace does not scan all."""
        self._by_owner: dict[Resource, dict[OwnerKey, set[str]]] = {}
        self._listeners: list[Listener] = []
        self._followers: list[Listener] = []
        self._changes: dict[Resource, int] = {}
        self._writing: dict[tuple[Resource, Key], set[OwnerKey]] = {}
        """Objects with a write in progress, and the owners to notify of other changes during the write."""

    def subscribe(self, listener: Listener) -> None:
        """Register a listener that is called after every change by others."""
        self._listeners.append(listener)

    def follow(self, listener: Listener) -> None:
        """Register a listener that is called after each of the operator's own writes.

        Listeners of `subscribe` are not called for them.
        """
        self._followers.append(listener)

    def changes(self, resource: Resource) -> int:
        """Return the number of changes of this kind; equal numbers mean that no object has changed."""
        return self._changes.get(resource, 0)

    def get(self, resource: Resource, key: Key) -> dict[str, Any] | None:
        """Return the last observed state of an object, or None."""
        entry = self._entry(resource, key)
        return _unpack(entry.packed) if entry is not None and entry.packed is not None else None

    def version(self, resource: Resource, key: Key) -> int | None:
        """Return the version of an object, or None if there is none; equal versions mean the same state."""
        entry = self._entry(resource, key)
        return entry.version if entry is not None and entry.packed is not None else None

    def uid(self, resource: Resource, key: Key) -> str | None:
        """Return the UID of an object, or None if there is none."""
        entry = self._entry(resource, key)
        return entry.uid if entry is not None and entry.packed is not None else None

    def lost(self, resource: Resource, key: Key) -> bool:
        """Return True if the object existed and is deleted, while its deletion is still recorded."""
        entry = self._entry(resource, key)
        return entry is not None and entry.packed is None

    def keys(self, resource: Resource, namespace: str | None = None) -> list[Key]:
        """Return the keys of all objects of a kind, in one namespace or in all."""
        return [key for key, entry in self._of(resource, namespace) if entry.packed is not None]

    def has_any(self, resource: Resource, namespace: str) -> bool:
        """Return True if a namespace has an object of a kind."""
        return any(entry.packed is not None for _, entry in self._of(resource, namespace))

    def owners(self, resource: Resource) -> list[OwnerKey]:
        """Return the owners of objects of a kind."""
        return list(self._by_owner.get(resource, {}))

    def age(self, resource: Resource, key: Key) -> float:
        """Return the seconds since the last report about an object, or infinity if it is unknown."""
        entry = self._entry(resource, key)
        return time.monotonic() - entry.at if entry is not None and entry.packed is not None else float("inf")

    def all(self, resource: Resource) -> Iterator[dict[str, Any]]:
        """Yield every object of a kind."""
        for _, entry in self._of(resource):
            if entry.packed is not None:
                yield _unpack(entry.packed)

    def owned_by(self, owner: OwnerKey, resource: Resource) -> list[dict[str, Any]]:
        """Return the objects of a kind that belong to an owner, by name."""
        found = self._by_owner.get(resource, {}).get(owner, ())
        objects = (self.get(resource, Key(owner.namespace, name)) for name in sorted(found))
        return [item for item in objects if item is not None]

    @contextmanager
    def writing(self, resource: Resource, key: Key) -> Iterator[Callable[[Mapping[str, Any], bool], None]]:
        """Provide a callback for the API server's response to a write of an object.

        The watch may report the operator's own write before the response arrives. Listeners are not notified
        of that write; they are notified of other changes after the write has ended. The callback's second
        argument is True if the response contains changes in addition to the write.
        """
        self._writing[resource, key] = set()
        answered = 0

        def take(written: Mapping[str, Any], news: bool) -> None:
            nonlocal answered
            answered = _version(written["metadata"].get("resourceVersion"))
            self.put(resource, written)
            if news:
                answered = -1

        try:
            yield take
        finally:
            reported = self._writing.pop((resource, key))
            entry = self._entry(resource, key)
            if entry is None or entry.packed is None or entry.version != answered:
                self._notify(resource, reported)
            else:
                owner = entry.owner or OwnerKey(resource.kind, *key)
                for follower in self._followers:
                    follower(resource, owner)

    def put(self, resource: Resource, manifest: Mapping[str, Any]) -> bool:
        """Store a newer state of an object. Return False, without a change, if the state is not newer."""
        metadata = manifest["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        version = _version(metadata.get("resourceVersion"))
        entries = self._entries.setdefault(resource, {}).setdefault(key.namespace, {})
        before = entries.get(key)
        if before is not None and version and version <= before.version:
            if version == before.version:
                before.at = time.monotonic()
            return False
        packed = _pack(trim_of(resource)(manifest))
        entry = _Entry(version, metadata.get("uid", ""), time.monotonic(), _owner(resource, manifest), packed)
        entries[key] = entry
        if (
            resource is NODES
            and before is not None
            and before.packed is not None
            and _same(before.packed, packed)
        ):
            return False  # a node's heartbeat
        if before is None or before.packed is None:
            metrics.CACHED.labels(resource.plural).inc()
        self._index(resource, key, before.owner if before else None, entry.owner)
        self._changed(resource, key, {before.owner if before else None, entry.owner})
        return True

    def drop(self, resource: Resource, manifest: Mapping[str, Any]) -> bool:
        """Remove a deleted object; `manifest` is its last state, with the version of its deletion."""
        metadata = manifest["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        version = _version(metadata.get("resourceVersion"))
        before = self._entry(resource, key)
        if before is not None and (version < before.version or before.packed is None):
            return False
        return self._remove(resource, key, version)

    def forget(self, resource: Resource, key: Key) -> bool:
        """Remove an object that does not exist in the API server."""
        before = self._entry(resource, key)
        return (
            before is not None and before.packed is not None and self._remove(resource, key, before.version)
        )

    def settle(
        self, resource: Resource, listed: Iterable[Key], version: str, namespace: str | None = None
    ) -> None:
        """After a complete list of `version`, remove unlisted objects, unless they are newer than the list.

        `namespace` is that of the list; None means all.
        """
        known, at = set(listed), _version(version)
        for key, entry in list(self._of(resource, namespace)):
            if key in known or entry.version > at:
                continue
            if entry.packed is None:
                self._delete(resource, key)
            else:
                self._remove(resource, key, at)

    def clear(self, resource: Resource, namespace: str | None = None) -> None:
        """Remove all objects of a kind that is not served or not readable, in one namespace or in all."""
        for key, _ in list(self._of(resource, namespace)):
            self.forget(resource, key)
            self._delete(resource, key)

    def _entry(self, resource: Resource, key: Key) -> _Entry | None:
        return self._entries.get(resource, {}).get(key.namespace, {}).get(key)

    def _of(self, resource: Resource, namespace: str | None = None) -> Iterator[tuple[Key, _Entry]]:
        """Yield the entries of a kind, in one namespace or in all."""
        found = self._entries.get(resource, {})
        for entries in found.values() if namespace is None else (found.get(namespace, {}),):
            yield from entries.items()

    def _delete(self, resource: Resource, key: Key) -> None:
        """Delete the entry of an object."""
        entries = self._entries[resource][key.namespace]
        del entries[key]
        if not entries:
            del self._entries[resource][key.namespace]

    def _remove(self, resource: Resource, key: Key, version: int) -> bool:
        before = self._entry(resource, key)
        if before is None:
            return False
        self._entries[resource][key.namespace][key] = _Entry(
            max(version, before.version), before.uid, time.monotonic(), None, None
        )
        metrics.CACHED.labels(resource.plural).dec()
        self._index(resource, key, before.owner, None)
        self._changed(resource, key, {before.owner})
        return True

    def _index(self, resource: Resource, key: Key, before: OwnerKey | None, after: OwnerKey | None) -> None:
        index = self._by_owner.setdefault(resource, {})
        if before is not None and before != after:
            members = index.get(before, set())
            members.discard(key.name)
            if not members:
                index.pop(before, None)
        if after is not None:
            index.setdefault(after, set()).add(key.name)

    def _changed(self, resource: Resource, key: Key, owners: set[OwnerKey | None]) -> None:
        self._changes[resource] = self._changes.get(resource, 0) + 1
        concerned = {owner for owner in owners if owner is not None}
        if resource is NODES:
            concerned = {OwnerKey(NODES.kind, *key)}
        held = self._writing.get((resource, key))
        if held is not None:
            held |= concerned
        else:
            self._notify(resource, concerned)

    def _notify(self, resource: Resource, concerned: Iterable[OwnerKey]) -> None:
        for listener in self._listeners:
            for each in concerned:
                listener(resource, each)


def _owner(resource: Resource, manifest: Mapping[str, Any]) -> OwnerKey | None:
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", "")
    if resource.group == GROUP:
        return OwnerKey(resource.kind, namespace, str(metadata["name"]))
    owner = controller(manifest)
    if owner is not None and str(owner.get("apiVersion")).partition("/")[0] == GROUP:
        return OwnerKey(str(owner.get("kind")), namespace, str(owner["name"]))
    if resource is CONFIG_MAPS:
        return gateway_key(namespace)  # only the gateway's ConfigMap is watched here
    label = names.labelled_owner(metadata.get("labels"))
    return OwnerKey.of_label(namespace, label) if label is not None else None


def _version(text: Any) -> int:
    """Return a resourceVersion as a number.

    Kubernetes guarantees that versions are numbers and grow (KEP-5504).
    """
    try:
        return int(text)
    except (TypeError, ValueError):
        return 0


def _pack(manifest: Mapping[str, Any]) -> bytes:
    return zlib.compress(orjson.dumps(manifest), 1)


def _unpack(packed: bytes) -> dict[str, Any]:
    manifest: dict[str, Any] = orjson.loads(zlib.decompress(packed))
    return manifest


def _same(one: bytes, other: bytes) -> bool:
    before, after = _unpack(one), _unpack(other)
    before["metadata"].pop("resourceVersion")
    after["metadata"].pop("resourceVersion")
    return before == after
