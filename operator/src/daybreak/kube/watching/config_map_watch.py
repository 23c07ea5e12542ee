"""What ConfigMaps hold that objects of ours name: each is watched by its name, as long as somebody needs it.

A watch of all ConfigMaps would bring the content of every namespace here. Of a content only the digest is
handed on.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from daybreak.api.common.canonical import digest
from daybreak.kube.client import Api
from daybreak.kube.resources import CONFIG_MAPS
from daybreak.kube.watching.cache import Cache, Key
from daybreak.kube.watching.reflector import Reflector

RETRY_SECONDS = 30.0
"""How long after an accident a watch is begun anew."""

log = structlog.get_logger("daybreak.config_map_watch")


@dataclass(frozen=True)
class Content:
    """What is known of a ConfigMap's content. Nothing at all where the operator may not read it."""

    digest: str = ""
    """Of its files: labels and annotations do not count. Empty: it is not known."""
    missing: bool = False
    """There is no such ConfigMap."""
    awaited: bool = False
    """It has not been looked for yet: in a moment more is known."""


class ConfigMapWatch:
    """Watches the ConfigMaps that objects name.

    Args:
        api: The API server.
        enqueue: Called with an object of whose ConfigMap something else is to be said.
    """

    def __init__(self, api: Api, enqueue: Callable[[Key], None]) -> None:
        self._api = api
        self._enqueue = enqueue
        self._named: dict[Key, Key] = {}
        """The ConfigMap that each object goes by."""
        self._watches: dict[Key, _Watch] = {}

    def content(self, owner: Key, name: str | None) -> Content | None:
        """What the ConfigMap holds that an object names, and goes by from now on; None: it names none."""
        key = Key(owner.namespace, name) if name is not None else None
        if self._named.get(owner) != key:
            self.forget(owner)
        if key is None:
            return None
        self._named[owner] = key
        if key not in self._watches:
            self._watches[key] = _Watch(self._api, key, lambda: self._changed(key))
        return self._watches[key].content()

    def forget(self, owner: Key) -> None:
        """The object goes by none any more."""
        key = self._named.pop(owner, None)
        if key is not None and key not in self._named.values():
            self._watches.pop(key).end()

    async def close(self) -> None:
        """End every watch."""
        watches = [*self._watches.values()]
        self._watches.clear()
        self._named.clear()
        for watch in watches:
            watch.end()
        await asyncio.gather(*(watch.task for watch in watches), return_exceptions=True)

    def _changed(self, key: Key) -> None:
        for owner in [owner for owner, named in self._named.items() if named == key]:
            self._enqueue(owner)


class _Watch:
    """One ConfigMap. It has a cache of its own: a list of one name says nothing of others."""

    def __init__(self, api: Api, key: Key, changed: Callable[[], None]) -> None:
        self._key = key
        self._cache = Cache()
        self._cache.subscribe(lambda *_: changed())
        self._changed = changed
        self._reflector = Reflector(api, self._cache, CONFIG_MAPS, namespace=key.namespace, name=key.name)
        self._known: tuple[int, str] = (-1, "")
        """Digest of what stood in the cache after so many changes."""
        self.task = asyncio.create_task(self._run(), name=f"ConfigMap {key}")

    def content(self) -> Content:
        """What is known of it."""
        if not self._reflector.synced.is_set():
            return Content(awaited=True)
        if not self._reflector.permitted:
            return Content()
        changes = self._cache.changes(CONFIG_MAPS)
        if self._known[0] != changes:
            manifest = self._cache.get(CONFIG_MAPS, self._key)
            files = ("data", "binaryData")
            held = "" if manifest is None else digest({part: manifest.get(part) or {} for part in files})
            self._known = changes, held
        return Content(digest=self._known[1]) if self._known[1] else Content(missing=True)

    def end(self) -> None:
        """Nobody goes by it any more."""
        self.task.cancel()
        self._changed = lambda: None
        self._cache.clear(CONFIG_MAPS)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            await self._reflector.synced.wait()
            self._changed()

    async def _follow(self) -> None:
        while True:
            try:
                await self._reflector.run()
            except Exception as error:  # one ConfigMap must never stop the others
                log.exception("a watch has ended", configmap=str(self._key), error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
