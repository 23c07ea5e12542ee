"""Keeps the router as the cache says it should be: each model of the namespace leads to its service."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence

import structlog

from daybreak.api.common.resource import Resource
from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.gateway.agent.wanted import Claims, Ports, Wanted, wanted
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import NOBODY, ApiKey, KeyFiles
from daybreak.gateway.router.router import Route, Router
from daybreak.kube.cache import Cache, Key

PAUSE_SECONDS = 0.1
"""The least time between two looks at all services."""
RETRY_SECONDS = 1.0
KEYS_SECONDS = 10.0
"""How often the files with API keys are read again: they change without a word."""

log = structlog.get_logger("daybreak.gateway")


def _digests(keys: Sequence[ApiKey], model: str, now: float) -> tuple[str, ...]:
    """Of the keys that may ask for a model. Where none of several may, nobody: it is not open to all."""
    may = tuple(key.digest for key in keys if key.may_ask(model, now))
    return may or (NOBODY,) * bool(keys)


def routes(
    services: Iterable[Wanted], ports: range, now: float = 0
) -> tuple[dict[str, Route], dict[str, tuple[str, ...]]]:
    """Where the requests for each model go, and who else has a model of that name, by model.

    Keys that have expired by `now`, in seconds since 1970, count no more. Of two services with the same model
    the older one gets the requests, as with ports.
    """
    claims = Claims()
    claimed = [service for service in services if service.port in ports]
    for service in claimed:
        claims.put(service.name, service)
    served = [service for service in claimed if claims.holder(service.port) is service]
    found: dict[str, Route] = {}
    others: dict[str, tuple[str, ...]] = {}
    for one in sorted(served, key=lambda service: service.seniority):
        for model in dict.fromkeys(one.models):
            if model in found:
                others[model] = (*others.get(model, ()), one.name)
            else:
                found[model] = Route(one.port, one.name, _digests(one.front.slot.keys, model, now))
    return found, others


class RouteKeeper:
    """Tells the router where models are.

    Args:
        cache: LLMServices.
        router: Started before `run` is.
        namespace: The namespace of all services.
        ports: The ports that services can have.
        keys: Reads API keys.
    """

    def __init__(self, cache: Cache, router: Router, *, namespace: str, ports: range, keys: KeyFiles) -> None:
        self._cache = cache
        self._router = router
        self._namespace = namespace
        self._ports = ports
        self._keys = keys
        self._told: Mapping[str, Route] | None = None
        self._warned: dict[str, tuple[str, ...]] = {}
        self._wake = asyncio.Event()
        cache.subscribe(self._changed)

    @property
    def told(self) -> bool:
        """Whether the router has been told where models are."""
        return self._told is not None

    async def run(self) -> None:
        """Tell it until cancelled."""
        while True:
            self._wake.clear()
            failed = False
            try:
                await self._tell()
            except RuntimeApiError as error:
                log.warning("the router could not be told where models are", error=str(error))
                failed = True
            await asyncio.sleep(PAUSE_SECONDS)
            keyed = any(route.keys for route in (self._told or {}).values())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if failed else KEYS_SECONDS if keyed else None):
                    await self._wake.wait()

    async def _tell(self) -> None:
        found, others = routes(self._services(), self._ports, time.time())
        for model, names in others.items():
            if self._warned.get(model) != names:
                log.warning(
                    "a model's name is taken: the older service gets its requests at the common address",
                    model=model,
                    service=found[model].service,
                    others=list(names),
                )
        self._warned = others
        if found != self._told:
            await self._router.set_routes(found)
            self._told = found

    def _services(self) -> Iterable[Wanted]:
        for key in self._cache.keys(LLM_SERVICES):
            if key.namespace != self._namespace:
                continue
            try:
                manifest = self._cache.get(LLM_SERVICES, key)
                service = None
                if manifest is not None:
                    service = wanted(manifest, (), Ports(), self._keys.keys(manifest))
            except Exception as error:  # one service must never stop the others
                log.exception("a service cannot be read", service=key.name, error=str(error))
                continue
            if service is not None:
                yield service

    def _changed(self, resource: Resource, key: Key) -> None:
        if resource == LLM_SERVICES and key.namespace == self._namespace:
            self._wake.set()
