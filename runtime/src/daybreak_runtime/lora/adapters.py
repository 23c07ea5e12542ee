"""Reconciler of one replica's adapters with the configuration.

It never stops or delays requests: an adapter is fetched and checked in parallel, then added to the engine,
and only then listed. Failed fetches are retried; adapters that do not fit are rejected with a reason.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from daybreak_runtime.lora.check import Refused
from daybreak_runtime.lora.desired import DesiredAdapter
from daybreak_runtime.lora.files import NotFetched

log = logging.getLogger(__name__)

LOADING, LOADED, REFUSED, FAILED = "Loading", "Loaded", "Rejected", "Failed"
"""States of an adapter. `Failed` is retried, `Rejected` only when the configuration names another one."""
AGAIN_SECONDS = (5.0, 300.0)
"""First and maximum pause in seconds before unavailable files are requested again."""


class Engine(Protocol):
    """Interface of an engine that accepts adapters."""

    async def add(self, name: str, path: str) -> None:
        """Load the adapter in this directory, and list it as `name`, replacing an existing one of that name.

        Raises Refused.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove the adapter from the list; its requests continue, and its memory is released after them."""
        ...

    async def close(self) -> None:
        """Stop waiting for requests that use removed adapters."""
        ...


@dataclass
class _Adapter:
    desired: DesiredAdapter
    state: str = LOADING
    reason: str = ""
    task: asyncio.Task[None] | None = None


class Adapters:
    """Reconciler of the engine's adapters with the latest configuration.

    Args:
        engine: Engine that accepts adapters.
        fetch: Function that copies an adapter's files onto every node of the replica; raises NotFetched.
        check: Function that checks that the files in a directory fit; raises Refused.
    """

    def __init__(
        self,
        engine: Engine,
        fetch: Callable[[DesiredAdapter], Awaitable[str]],
        check: Callable[[str], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._fetch = fetch
        self._check = check
        self._adapters: dict[str, _Adapter] = {}
        self._listed: set[str] = set()
        self._turned = asyncio.Event()

    def want(self, desired: Mapping[str, DesiredAdapter]) -> None:
        """Set the desired adapters. Existing and unchanged ones are not touched."""
        for name in set(self._adapters) - set(desired):
            self._stop(self._adapters.pop(name))
            self._remove(name)
        for name, adapter in desired.items():
            before = self._adapters.get(name)
            if before is not None and before.desired == adapter:
                continue
            if before is not None:
                self._stop(before)
            new = self._adapters[name] = _Adapter(adapter)
            new.task = asyncio.create_task(self._load(new), name=f"adapter {name}")
        self._turned.set()

    async def settled(self, seconds: float) -> bool:
        """Wait until each is loaded or rejected, or its first fetch has failed.

        Returns False after `seconds`.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(adapter.state == LOADING for adapter in self._adapters.values()):
                    self._turned.clear()
                    await self._turned.wait()
                return True
        return False

    def report(self) -> dict[str, Any]:
        """Return the state of each adapter, as JSON for the operator."""
        return {
            "adapters": {
                name: {"id": adapter.desired.id, "state": adapter.state, "reason": adapter.reason}
                for name, adapter in self._adapters.items()
            }
        }

    def missing(self, name: str) -> tuple[str, str] | None:
        """Return state and reason of a configured adapter that is unavailable, or None for all others."""
        adapter = self._adapters.get(name)
        if adapter is None or name in self._listed:
            return None
        return adapter.state, adapter.reason

    async def close(self) -> None:
        """Stop all work on adapters."""
        tasks = [adapter.task for adapter in self._adapters.values() if adapter.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._engine.close()

    async def _load(self, adapter: _Adapter) -> None:
        name, pause = adapter.desired.name, AGAIN_SECONDS[0]
        while True:
            try:
                path = await self._fetch(adapter.desired)
                await self._check(path)
                await self._engine.add(name, path)
                self._listed.add(name)
            except NotFetched as error:
                self._write(adapter, FAILED, str(error))
            except Refused as error:
                # The previous adapter of that name is no longer the configured one.
                self._remove(name)
                self._write(adapter, REFUSED, str(error))
                return
            except Exception as error:  # no error of an adapter may end the replica
                log.exception("adapter %s", name)
                self._write(adapter, FAILED, f"{type(error).__name__}: {error}")
            else:
                self._write(adapter, LOADED, "")
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, AGAIN_SECONDS[1])

    def _remove(self, name: str) -> None:
        if name in self._listed:
            self._listed.discard(name)
            self._engine.remove(name)
            log.info("adapter %s is removed", name)

    @staticmethod
    def _stop(adapter: _Adapter) -> None:
        if adapter.task is not None:
            adapter.task.cancel()

    def _write(self, adapter: _Adapter, state: str, reason: str) -> None:
        if (adapter.state, adapter.reason) != (state, reason):
            log.info("adapter %s: %s %s", adapter.desired.name, state, reason)
        adapter.state, adapter.reason = state, reason
        self._turned.set()
