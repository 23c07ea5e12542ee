"""What the operator knows of the cluster: the last seen state of every object that it watches.

Objects are kept as compressed JSON, because thousands of Python dictionaries would need a hundred times
the memory, and read far more rarely than they are kept. The cache never goes backwards: an older version
of an object than the one at hand is passed over, so that the operator's own writes, put in at once, are
not undone by an event that was on its way.
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
"""Called with the kind that changed and the owner concerned; for nodes with the node."""


@dataclass(slots=True)
class _Entry:
    version: int
    uid: str
    at: float
    """When it was last heard of, on the monotonic clock."""
    owner: OwnerKey | None
    """The owner that it belongs to."""
    packed: bytes | None
    """None: deleted, and remembered for a while so that a late answer does not bring it back."""


class Cache:
    """Every watched object, by kind and key."""

    def __init__(self) -> None:
        self._entries: dict[Resource, dict[str, dict[Key, _Entry]]] = {}
        """By namespace: whoever asks about one shall not go through all of them."""
        self._by_owner: dict[Resource, dict[OwnerKey, set[str]]] = {}
        self._listeners: list[Listener] = []
        self._followers: list[Listener] = []
        self._changes: dict[Resource, int] = {}
        self._writing: dict[tuple[Resource, Key], set[OwnerKey]] = {}
        """Objects that are being written, with whom to tell of what has changed meanwhile."""

    def subscribe(self, listener: Listener) -> None:
        """Have `listener` called after every change."""
        self._listeners.append(listener)

    def follow(self, listener: Listener) -> None:
        """Have `listener` called after every write of our own, of which the others are not told."""
        self._followers.append(listener)

    def changes(self, resource: Resource) -> int:
        """How often objects of this kind have changed: equal numbers mean nothing has."""
        return self._changes.get(resource, 0)

    def get(self, resource: Resource, key: Key) -> dict[str, Any] | None:
        """The object as last seen, or None."""
        entry = self._entry(resource, key)
        return _unpack(entry.packed) if entry is not None and entry.packed is not None else None

    def version(self, resource: Resource, key: Key) -> int | None:
        """The object's version, or None when it is not there: an equal one means the same object."""
        entry = self._entry(resource, key)
        return entry.version if entry is not None and entry.packed is not None else None

    def uid(self, resource: Resource, key: Key) -> str | None:
        """The object's uid, or None when it is not there."""
        entry = self._entry(resource, key)
        return entry.uid if entry is not None and entry.packed is not None else None

    def lost(self, resource: Resource, key: Key) -> bool:
        """Whether the object was there and is deleted, as far as that is remembered."""
        entry = self._entry(resource, key)
        return entry is not None and entry.packed is None

    def keys(self, resource: Resource, namespace: str | None = None) -> list[Key]:
        """Every object of a kind; of one namespace, or of all."""
        return [key for key, entry in self._of(resource, namespace) if entry.packed is not None]

    def has_any(self, resource: Resource, namespace: str) -> bool:
        """Whether a namespace has an object of a kind."""
        return any(entry.packed is not None for _, entry in self._of(resource, namespace))

    def owners(self, resource: Resource) -> list[OwnerKey]:
        """Those to whom objects of a kind belong."""
        return list(self._by_owner.get(resource, {}))

    def age(self, resource: Resource, key: Key) -> float:
        """Seconds since the object was last heard of; endless when it is not known."""
        entry = self._entry(resource, key)
        return time.monotonic() - entry.at if entry is not None and entry.packed is not None else float("inf")

    def all(self, resource: Resource) -> Iterator[dict[str, Any]]:
        """Every object of a kind, one after the other."""
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
        """While the operator writes an object: call what this yields with the API server's answer.

        The watch may bring our own write before the answer does. Nobody needs to be told of that; of anything
        else, when the write is over. The second argument says that the answer holds news beside our write.
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
            told = self._writing.pop((resource, key))
            entry = self._entry(resource, key)
            if entry is None or entry.packed is None or entry.version != answered:
                self._tell(resource, told)
            else:
                owner = entry.owner or OwnerKey(resource.kind, *key)
                for follower in self._followers:
                    follower(resource, owner)

    def put(self, resource: Resource, manifest: Mapping[str, Any]) -> bool:
        """Take a newer state in. Returns False, and changes nothing, when it is not newer."""
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
        """Forget a deleted object; `manifest` is its last state, with the version of its deletion."""
        metadata = manifest["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        version = _version(metadata.get("resourceVersion"))
        before = self._entry(resource, key)
        if before is not None and (version < before.version or before.packed is None):
            return False
        return self._remove(resource, key, version)

    def forget(self, resource: Resource, key: Key) -> bool:
        """Forget an object that the API server says does not exist."""
        before = self._entry(resource, key)
        return (
            before is not None and before.packed is not None and self._remove(resource, key, before.version)
        )

    def settle(
        self, resource: Resource, listed: Iterable[Key], version: str, namespace: str | None = None
    ) -> None:
        """After a complete list of `version`: forget what is not in it, unless it is newer than the list.

        `namespace` is that of the list; None: it was of all.
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
        """Forget a kind, in one namespace or in all: it is not served, or may not be read."""
        for key, _ in list(self._of(resource, namespace)):
            self.forget(resource, key)
            self._delete(resource, key)

    def _entry(self, resource: Resource, key: Key) -> _Entry | None:
        return self._entries.get(resource, {}).get(key.namespace, {}).get(key)

    def _of(self, resource: Resource, namespace: str | None = None) -> Iterator[tuple[Key, _Entry]]:
        """What is kept of a kind; of one namespace, or of all."""
        found = self._entries.get(resource, {})
        for entries in found.values() if namespace is None else (found.get(namespace, {}),):
            yield from entries.items()

    def _delete(self, resource: Resource, key: Key) -> None:
        """Keep nothing of an object."""
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
            self._tell(resource, concerned)

    def _tell(self, resource: Resource, concerned: Iterable[OwnerKey]) -> None:
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
        return gateway_key(namespace)  # the only one that is watched
    label = names.labelled_owner(metadata.get("labels"))
    return OwnerKey.of_label(namespace, label) if label is not None else None


def _version(text: Any) -> int:
    """A resourceVersion as a number; Kubernetes promises that they are, and grow (KEP-5504)."""
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
