"""Content of ConfigMaps that Daybreak's objects name, each watched by its name while an object needs it.

A watch of all ConfigMaps would copy the content of every namespace. Only a digest of the content is passed
on.
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial

import structlog

from daybreak.api.common.canonical import digest
from daybreak.api.common.config_map import Content
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.reflector import Reflector
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import CONFIG_MAPS

RETRY_SECONDS = 30.0
"""Time in seconds until a failed watch is restarted."""

log = structlog.get_logger("daybreak.config_map_watch")


class ConfigMapWatch:
    """Watches the ConfigMaps that objects name.

    Args:
        api: The API server.
        enqueue: Called with an object whose ConfigMap has changed.
    """

    def __init__(self, api: Api, enqueue: Callable[[Key], None]) -> None:
        self._api = api
        self._enqueue = enqueue
        self._named: dict[Key, frozenset[Key]] = {}
        """ConfigMaps that each object uses."""
        self._watches: dict[Key, _Watch] = {}

    def contents(self, owner: Key, named: Collection[str]) -> dict[str, Content]:
        """Return the content of an object's ConfigMaps by name, and watch them from now on."""
        keys = {name: Key(owner.namespace, name) for name in named}
        before = self._named.pop(owner, frozenset())
        if keys:
            self._named[owner] = frozenset(keys.values())
        self._end(before)
        for key in keys.values():
            if key not in self._watches:
                self._watches[key] = _Watch(self._api, key, partial(self._changed, key))
        return {name: self._watches[key].content() for name, key in keys.items()}

    def forget(self, owner: Key) -> None:
        """Stop watching the ConfigMaps of an object."""
        self._end(self._named.pop(owner, frozenset()))

    async def close(self) -> None:
        """End every watch."""
        watches = [*self._watches.values()]
        self._watches.clear()
        self._named.clear()
        for watch in watches:
            watch.end()
        await asyncio.gather(*(watch.task for watch in watches), return_exceptions=True)

    def _changed(self, key: Key) -> None:
        for owner in [owner for owner, named in self._named.items() if key in named]:
            self._enqueue(owner)

    def _end(self, keys: Collection[Key]) -> None:
        """End the watches of ConfigMaps that no object uses."""
        for key in keys:
            if not any(key in named for named in self._named.values()):
                self._watches.pop(key).end()


class _Watch:
    """Watch of one ConfigMap. It has its own cache, because a list of one name contains no others."""

    def __init__(self, api: Api, key: Key, changed: Callable[[], None]) -> None:
        self._key = key
        self._cache = Cache()
        self._cache.subscribe(lambda *_: changed())
        self._changed = changed
        self._reflector = Reflector(api, self._cache, CONFIG_MAPS, namespace=key.namespace, name=key.name)
        self._known: tuple[int, str] = (-1, "")
        """Number of changes of the cache, and digest of the content after them."""
        self.task = asyncio.create_task(self._run(), name=f"ConfigMap {key}")

    def content(self) -> Content:
        """Return the known content of the ConfigMap."""
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
        """End the watch, which no object uses any longer."""
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
                log.exception("Watch of a ConfigMap failed", configmap=str(self._key), error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
