"""The operator with some parts exchanged, as far as the environment asks for it.

Models are not probed over a network that does not exist: the file NS.NAME in the folder
$DAYBREAK_PLAYED_ANSWERS decides whether the service NAME of namespace NS answers. If absent, it does not; the
file's text is the error that the service returns instead. A URL there is that of a server which answers by
HTTP for every Ray head: at its base URL for the head 10.0.0.1 under `/10.0.0.1`.

The operator does not listen to gateways either. Their reports of the requests to a service are in the file
NS.NAME of the folder $DAYBREAK_PLAYED_TRAFFIC, as JSON: `held`, `in_flight`, `idle` (seconds, constant),
`arrivals`, `known`, `clusters` (RayClusters that they use) and `acknowledged` (an epoch; absent: gateways
apply and report the status at once). Without the file, a client has sent a request at that moment.

The gateways' reports of the requests that a route NAME has sent to its backends are in the file
NS.route.NAME: by the name of each backend, in the gateway's format, without `since`, which is that of the
status; with `gone` if it has gone.

Alternatively they are real and run on this machine: $DAYBREAK_PLAYED_GATEWAYS is JSON with `first_port`
and `slots`, their ports for services, and `states`: by a gateway pod's address, where it serves its state.

$DAYBREAK_PLAYED_DEATH="N MOMENT" has the process kill itself at its Nth write (its lease aside): `before` the
request, when it is `sent`, or `after` the answer has come and before anything is made of it.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from daybreak import logs
from daybreak.__main__ import run
from daybreak.api.common import names
from daybreak.api.common.task import Task
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.ray.model import Model
from daybreak.api.schema.resource import Resource
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.assembly import WORKLOADS
from daybreak.controller.asking.model_client import HttpModelClient, WorkloadWithModels
from daybreak.gates.traffic import AgedReport, ModelReports
from daybreak.gateways import reports as gateway_reports
from daybreak.gateways.listener import GatewayListener
from daybreak.gateways.reports import Enqueue, GatewayReports
from daybreak.kinds.llmroute.status import got
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import LEASES
from daybreak.protocol.reports import Report
from daybreak.protocol.tallies import GatewayTally, RouteTally
from daybreak.rollouts import machine
from daybreak.scheduling import claim
from daybreak.settings import Settings
from daybreak.workloads.answer import Answer
from tests.api.playing.words import PATIENCE

ROUTE = "route"
"""Stands before the name of a route in that of its file."""
WRITE_SECONDS = 5.0
"""How often it is written what a route's backends have got: tests wait for it."""
ERRORS = timedelta(seconds=12)
"""For how long a model may answer with errors alone before a change to it has failed: tests wait for it."""


class PlayedProber:
    """Answers as the folder says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._client = HttpModelClient()

    async def ask(
        self,
        service: WorkloadWithModels,
        model: Model,
        base: str,
        patience: float,
        path: str = "",
        task: Task | None = None,
    ) -> Answer:
        """Return the answer in the folder."""
        file = self._folder / f"{service.namespace}.{service.name}"
        if not file.exists():
            return Answer(model.name, False, "nobody plays this service")
        message = file.read_text()
        if message.startswith("http://"):
            requested = URL(base)
            return await self._client.ask(
                service, model, f"{message}/{requested.host}{requested.path}", patience, path
            )
        return Answer(model.name, not message, message)

    async def close(self) -> None:
        """Close what is open."""
        await self._client.close()


class MortalApi(Api):
    """Talks to the API server until it dies."""

    writes = 0
    number, moment = 0, ""

    async def request(self, verb: str, resource: Resource, path: str, **options: Any) -> dict[str, Any]:
        """One request, perhaps the last."""
        if verb in ("get", "list") or resource is LEASES:
            return await super().request(verb, resource, path, **options)
        self.writes += 1
        last = self.writes == self.number
        if last and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        requested = asyncio.create_task(super().request(verb, resource, path, **options))
        if last and self.moment == "sent":
            await asyncio.wait([requested], timeout=0.003)
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await requested
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


class PlayedGateways(GatewayReports):
    """Gateways that say what the files in a folder say."""

    def __init__(self, cache: Cache, workloads: Collection[Resource], enqueue: Enqueue) -> None:
        super().__init__(cache, workloads, enqueue)
        folder = os.environ.get("DAYBREAK_PLAYED_TRAFFIC")
        self._folder = Path(folder) if folder else None
        self._message: dict[str, str] = {}
        self._carried_out: dict[OwnerKey, dict[str, int]] = {}
        """Epochs of the models' gates."""
        self._observed = -1
        self._changed()
        self._reading = asyncio.create_task(self._read(enqueue))

    def received(self, workload: OwnerKey) -> tuple[ModelReports | None, ...]:
        """Return the reports in the workload's file, for every model, or for each under `models`."""
        file = self._folder / f"{workload.namespace}.{workload.label}" if self._folder else None
        report = json.loads(file.read_text()) if file and file.exists() else {}
        known = report.get("known", True)
        resource = {each.kind: each for each in WORKLOADS}.get(workload.kind, LLM_SERVICES)
        spec = (self._cache.get(resource, workload.key) or {}).get("spec") or {}
        written = spec.get("models") or ([spec["model"]] if "model" in spec else [])
        # An application has one gate, with the application's name.
        one = workload.kind == SERVE_APPLICATIONS.kind
        models = [workload.name] if one else [model["name"] for model in written]
        carried_out = self._carried_out.get(workload, {})
        each = {name: {**report, **report.get("models", {}).get(name, {})} for name in models}
        received = {name: _observe(row, carried_out.get(name, 0)) for name, row in each.items()}
        return (received,) if known else (received, None)

    def reported(self, namespace: str, route: str) -> tuple[GatewayTally, ...]:
        """Return the reports in the file of the route."""
        file = self._folder / f"{namespace}.{ROUTE}.{route}" if self._folder else None
        report = json.loads(file.read_text()) if file and file.exists() else {}
        status = (self._cache.get(LLM_ROUTES, Key(namespace, route)) or {}).get("status") or {}
        since = (status.get("counts") or {}).get("startTime", "")
        return tuple(
            GatewayTally(name, row.get("gone", False), RouteTally.parse({"since": since, **row}))
            for name, row in report.items()
        )

    async def close(self) -> None:
        """Read no more."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await super().close()

    async def _read(self, enqueue: Enqueue) -> None:
        while True:
            await asyncio.sleep(0.05)
            for name in self._changed():
                # The file of a ModelServer is NS.server.NAME.
                namespace, _, service = name.partition(".")
                if service.startswith(f"{ROUTE}.") and self.on_tallies is not None:
                    self.on_tallies(namespace)
                else:
                    enqueue(OwnerKey.of_label(namespace, service), 0.0)
            for key in self._carry_out():
                enqueue(key, 0.0)

    def _carry_out(self) -> list[OwnerKey]:
        """Do what the status of each service says; those for which that is something new."""
        changes = sum(self._cache.changes(kind) for kind in WORKLOADS)
        if self._observed == changes:
            return []
        self._observed = changes
        reported = []
        known = [(kind, key) for kind in WORKLOADS for key in self._cache.keys(kind)]
        for kind, own in known:
            key = OwnerKey(kind.kind, *own)
            status = (self._cache.get(kind, own) or {}).get("status") or {}
            gates = (status.get("gate") or {}).get("models") or ()
            epochs = {gate["name"]: gate["epoch"] for gate in gates}
            if epochs != self._carried_out.get(key, {}):
                self._carried_out[key] = epochs
                reported.append(key)
        return reported

    def _changed(self) -> list[str]:
        """Read the files again and return the names of those that have changed."""
        if self._folder is None:
            return []
        # Not those with a dot in front: they are being written, and are gone before they can be read.
        report = {file.name: file.read_text() for file in self._folder.glob("[!.]*")}
        changed = [name for name, text in report.items() if self._message.get(name) != text]
        self._message = report
        return changed


def _observe(message: dict[str, Any], epoch: int) -> AgedReport:
    report = Report(
        epoch=message.get("acknowledged", epoch),
        gate="",
        arrivals=message.get("arrivals", 0),
        held=message.get("held", 0),
        in_flight=message.get("in_flight", 0),
        idle_ms=round(1000 * message.get("idle", 0)),
        servers_up=1,
        clusters=tuple(message["clusters"]) if "clusters" in message else None,
    )
    return AgedReport(report, timedelta(0))


def run_gateways_here(report: dict[str, Any]) -> None:
    """Use this machine's gateways as the namespace's, because no two of them can have the ports of all."""
    first = report["first_port"]
    names.GATEWAY_PORTS = (first, first + report["slots"] - 1)

    def listen(url: str, session: aiohttp.ClientSession, on_change: Any, prove: Any) -> GatewayListener:
        return GatewayListener(report["states"][URL(url).host], session, on_change, prove)

    gateway_reports.GatewayListener = listen  # type: ignore[assignment,attr-defined]


async def main() -> bool:
    """Run the operator."""
    settings = Settings.from_environment()
    logs.configure(settings.log_level)
    death = os.environ.get("DAYBREAK_PLAYED_DEATH", "").split()
    if death:
        MortalApi.number, MortalApi.moment = int(death[0]), death[1]
    got.WRITE_SECONDS = WRITE_SECONDS
    machine.ERRORS = ERRORS
    claim.PATIENCE = PATIENCE
    client = PlayedProber(Path(os.environ["DAYBREAK_PLAYED_ANSWERS"]))
    here = os.environ.get("DAYBREAK_PLAYED_GATEWAYS")
    if here:
        run_gateways_here(json.loads(here))
    return await run(settings, client, MortalApi.connect, GatewayReports if here else PlayedGateways)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
