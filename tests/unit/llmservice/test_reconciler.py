"""One reconcile of a service that is about to sleep, with fake surroundings."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import Resource
from daybreak.controller.asking.job_events import JobEvents
from daybreak.controller.asking.model_client import ModelClient
from daybreak.controller.asking.prober import Prober
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.objects.revisions import controller_revision, with_own
from daybreak.kinds.llmservice.observe import copy_reports
from daybreak.kinds.llmservice.observe.adapter_reports import adapter_prober, http_reporter
from daybreak.kinds.llmservice.observe.copy_reports import CopyProber
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.observe.observer import Observer
from daybreak.kinds.llmservice.reconciler import Reconciler
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import RAY_CLUSTERS, of
from tests.parts import parts
from tests.unit.llmservice.decide.scenes.services import PLATFORM, Manifest, World, running
from tests.unit.llmservice.decide.scenes.sleeping import IDLE, asleep, view

KEY = Key("default", "chat")


class Surroundings:
    """Fake surroundings of a reconciler, which record its actions in order."""

    resource = LLM_SERVICES

    def __init__(self, world: World) -> None:
        self.world = world
        self.did: list[str] = []
        self.cache = Cache()
        self._version = 1
        revision = controller_revision(_service(world), with_own(_service(world), ())[0])
        found = [revision, *desired(_service(world), PLATFORM, None, 20001)]
        self._live = {manifest["kind"]: _stored(manifest) for manifest in found}
        for manifest in self._live.values():
            self.cache.put(of(manifest), manifest)

    def observe(self, key: Key) -> Observed:
        """Return the observed state, in place of the observer."""
        return self.world.observed

    def owner(self, key: Key) -> Key:
        """Return the owner of the objects, in place of the observer."""
        return key

    def again(self, key: Key, observed: Observed) -> Observed:
        """Return the current objects, in place of the observer."""
        return self.world.observed

    async def live(self, desired: Manifest) -> Manifest | None:
        """Return the current object, in place of the applier."""
        return self._live.get(desired["kind"])

    async def apply(self, desired: Manifest, live: Manifest | None) -> bool:
        """Write an object, in place of the applier; record only writes that release pods."""
        if desired["kind"] == "RayService" and live is not None and desired["spec"] != live["spec"]:
            self.did.append("RayService")
        return False

    async def delete(self, live: Manifest) -> None:
        """Delete an object, in place of the applier."""
        self.did.append(f"no {live['kind']}")

    def forget(self, key: Key) -> None:
        """Record nothing about a service."""

    async def request(self, verb: str, resource: Resource, path: str, **options: Any) -> Mapping[str, Any]:
        """Accept a write to the API server."""
        body = options.get("body")
        if resource is RAY_CLUSTERS:
            self.did.append("RayCluster")
            return self.world.observed.ray_clusters[0]
        if resource is not LLM_SERVICES:
            return {}
        assert isinstance(body, dict)
        self._version += 1
        status = body["status"]
        self.did.append(status["phase"])
        written = {**self.world.observed.manifest, "status": status}
        written["metadata"] = {**written["metadata"], "resourceVersion": str(self._version)}
        self.world.observed = replace(self.world.observed, manifest=written)
        return written


def _service(world: World) -> Any:
    assert world.observed.subject is not None
    return world.observed.subject


def _stored(manifest: Manifest) -> Manifest:
    metadata = {**manifest["metadata"], "uid": f"uid-{manifest['kind']}", "resourceVersion": "1"}
    return {**manifest, "metadata": metadata}


def _about_to_sleep(depth: str) -> World:
    """Return a world whose status shows sleep before its pods have been released."""
    world = asleep(sleep={"afterIdle": "10m", "depth": depth})
    metadata = {**world.observed.manifest["metadata"], "resourceVersion": "1"}
    ray = running(world)
    groups = [dict(group) for group in ray["spec"]["rayClusterConfig"]["workerGroupSpecs"]]
    cluster = {
        "metadata": {"name": "chat-aaaaa", "namespace": "default", "resourceVersion": "1"},
        "spec": {"workerGroupSpecs": groups},
    }
    world.observed = replace(
        world.observed,
        manifest={**world.observed.manifest, "metadata": metadata},
        ray_service=ray,
        ray_clusters=(cluster,),
    )
    return world


def _reconciler(around: Surroundings) -> Reconciler:
    known = parts(around.cache, SimpleNamespace(), PLATFORM, around)
    return Reconciler(
        replace(known, applier=cast(Applier, around)),
        cast(Observer, around),
        Prober(cast(ModelClient, None), lambda _: None),
        adapter_prober(http_reporter(), lambda _: None),
        CopyProber(copy_reports.http_reporter(), lambda _: None),
        JobEvents(cast(Api, around), lambda _: None),
    )


@pytest.mark.parametrize(
    ("depth", "taken"),
    [("Workers", ["RayService", "RayCluster"]), ("Cluster", ["no RayService", "RayCluster"])],
)
async def test_reconcile_releases_pods_for_sleep_in_status(depth: str, taken: list[str]) -> None:
    around = Surroundings(_about_to_sleep(depth))
    around.world.observed = replace(around.world.observed, gateway=IDLE)
    await _reconciler(around).reconcile(KEY)
    assert around.did == [*taken, "Asleep"]


@pytest.mark.parametrize("depth", ["Workers", "Cluster"])
async def test_request_before_pods_are_released_cancels_sleep(depth: str) -> None:
    """Released pods would have to be recreated immediately, by a complete wake."""
    around = Surroundings(_about_to_sleep(depth))
    around.world.observed = replace(around.world.observed, gateway=view(held=1))
    assert await _reconciler(around).reconcile(KEY) == 0.0, "the next one follows at once"
    assert around.did == ["Waking"]
