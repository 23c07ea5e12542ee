"""Versions of a model in a replica: loading, unloading and selection."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import Any

from daybreak_runtime.models.args import Version
from daybreak_runtime.models.loaded import Loaded
from daybreak_runtime.v2.problem import BadInput, NotFound, Problem

logger = logging.getLogger("ray.serve")


class Versions:
    """All versions of one model.

    Args:
        name: Name of the model.
        reported: Versions of the arguments.
        make: Function that returns a version that is not loaded yet.
    """

    def __init__(self, name: str, reported: Iterable[Version], make: Callable[[Version], Loaded]) -> None:
        self.name = name
        self.reported = {each.name: each for each in reported}
        self._make = make
        self._loaded: dict[str, Loaded] = {}
        self._failed: dict[str, str] = {}
        self._busy: dict[str, int] = {}
        self._lock = asyncio.Lock()

    @property
    def initial_versions(self) -> set[str]:
        """Names of the versions that are loaded at the start."""
        return {name for name, each in self.reported.items() if each.load}

    @property
    def ready(self) -> list[str]:
        """Names of the loaded versions."""
        return [name for name in self.reported if name in self._loaded]

    def index(self) -> list[dict[str, str]]:
        """Return the versions in the format of the repository's index."""
        return [
            {
                "name": self.name,
                "version": name,
                "state": "READY" if name in self._loaded else "UNAVAILABLE",
                "reason": "" if name in self._loaded else self._failed.get(name, "unloaded"),
            }
            for name in self.reported
        ]

    def get(self, version: str | None) -> Loaded:
        """Return the version that answers.

        This is the named one, one by weight, the default, or the last loaded one.

        Raises:
            NotFound: There is no version of that name.
            Problem: The version is not loaded.
        """
        if version is not None:
            if version not in self.reported:
                raise NotFound(f"the model {self.name} has no version {version}")
            if version not in self._loaded:
                raise Problem(f"version {version} of {self.name} is not loaded", 503)
            return self._loaded[version]
        ready = [self.reported[name] for name in self.ready]
        if not ready:
            raise Problem(f"no version of {self.name} is loaded", 503)
        for each in ready:
            if each.default:
                return self._loaded[each.name]
        if any(each.weight for each in ready):
            chosen = random.choices(ready, [each.weight for each in ready])[0]  # noqa: S311 -- a share
            return self._loaded[chosen.name]
        return self._loaded[ready[-1].name]

    async def change(self, desired: set[str]) -> None:
        """Load the desired versions, then unload the others.

        Raises:
            BadInput: A version does not exist or does not load; nothing is unloaded then.
        """
        unknown = sorted(desired - set(self.reported))
        if unknown:
            raise BadInput(f"the model {self.name} has no version {', '.join(unknown)}")
        async with self._lock:
            failed = [
                message for name in self.reported if name in desired and (message := await self._load(name))
            ]
            if failed:
                raise BadInput("; ".join(failed))
            for name in [name for name in self._loaded if name not in desired]:
                await self._unload(name)

    async def using(self, loaded: Loaded, work: Any) -> Any:
        """Await `work` of a version, which is not unloaded until then."""
        name = loaded.model.version
        self._busy[name] = self._busy.get(name, 0) + 1
        try:
            return await work
        finally:
            self._busy[name] -= 1

    async def _load(self, name: str) -> str:
        """Load a version. Returns the reason of a failure, or ""."""
        if name in self._loaded:
            return ""
        loaded = self._make(self.reported[name])
        try:
            await loaded.load()
        except Exception as error:
            logger.exception("version %s of %s does not load", name, self.name)
            self._failed[name] = f"{type(error).__name__}: {error}"[:500]
            return f"version {name} of {self.name} does not load: {self._failed[name]}"
        self._failed.pop(name, None)
        self._loaded[name] = loaded
        return ""

    async def _unload(self, name: str) -> None:
        """Unload a version: it receives no new requests, and current ones end first."""
        loaded = self._loaded.pop(name)
        while self._busy.get(name):  # noqa: ASYNC110 -- rare, and an event would cost every request
            await asyncio.sleep(0.02)
        try:
            await loaded.unload()
        except Exception:
            logger.exception("version %s of %s does not unload in order", name, self.name)
