"""Delayed watches: the operator must not undo a change that one of them has not reported yet."""

import contextlib
from typing import Any

import pytest
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config

from cluster import ControlPlane
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.controller.asking.job_events import JobEvents
from daybreak.controller.asking.model_client import HttpModelClient
from daybreak.controller.asking.prober import Prober
from daybreak.controller.writer import FRESH_SECONDS
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.llmservice.observe import copy_reports
from daybreak.kinds.llmservice.observe.adapter_reports import adapter_prober, http_reporter
from daybreak.kinds.llmservice.observe.copy_reports import CopyProber
from daybreak.kinds.llmservice.observe.observer import Observer
from daybreak.kinds.llmservice.reconciler import Reconciler
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.watches import Watches
from daybreak.manifests import resources
from daybreak.manifests.keys import Key
from daybreak.platform import Platform
from tests.api.admin import Admin, Refused
from tests.api.objects.llmservice import NAMES, everything, tiny
from tests.parts import parts

HELD = "tests.daybreak.dev/held"


async def test_objects_orphaned_before_deletion_is_observed_are_not_adopted(
    plane: ControlPlane, admin: Admin
) -> None:
    service = admin.create(tiny() | {"metadata": tiny()["metadata"] | {"finalizers": [HELD]}})
    key, cache = Key(admin.namespace, "tiny"), Cache()
    cache.put(LLM_SERVICES, service)
    api = await _connect(plane)
    try:
        reconciler = _reconciler(api, cache, admin.namespace)
        await reconciler.reconcile(key)
        made = everything(admin) or {}
        assert {_owner(each) for each in made.values()} == {service["metadata"]["uid"]}

        admin.delete("LLMService", "tiny")
        for kind, name in NAMES.items():
            orphan = admin.merge(kind, name, {"metadata": {"ownerReferences": None}})
            cache.put(resources.of(orphan), orphan)
        observed = cache.get(LLM_SERVICES, key) or {}
        assert not observed["metadata"].get("deletionTimestamp"), "the watch of LLMServices is behind"
        await reconciler.reconcile(key)
        left = everything(admin) or {}
        assert {_owner(each) for each in left.values()} == {None}
    finally:
        await api.close()
        admin.merge("LLMService", "tiny", {"metadata": {"finalizers": None}})


async def test_objects_of_deleted_service_are_not_recreated(plane: ControlPlane, admin: Admin) -> None:
    """The watches of the objects report deletions before the watch of LLMServices reports its own."""
    key, cache = Key(admin.namespace, "tiny"), Cache()
    cache.put(LLM_SERVICES, admin.create(tiny()))
    api = await _connect(plane)
    try:
        reconciler = _reconciler(api, cache, admin.namespace)
        await reconciler.reconcile(key)
        made = everything(admin) or {}
        admin.delete("LLMService", "tiny")
        for kind, name in NAMES.items():
            # The garbage collector does the same, in its own time.
            with contextlib.suppress(Refused):
                admin.delete(kind, name)
            cache.forget(resources.of(made[kind]), Key(admin.namespace, name))
        assert cache.get(LLM_SERVICES, key), "the watch of LLMServices is behind"
        assert cache.age(LLM_SERVICES, key) < FRESH_SECONDS, "and it was heard of lately"
        await reconciler.reconcile(key)
    finally:
        await api.close()
    assert not any(admin.get(kind, name) for kind, name in NAMES.items())
    assert cache.get(LLM_SERVICES, key) is None


async def test_deleted_object_of_existing_service_is_recreated(plane: ControlPlane, admin: Admin) -> None:
    key, cache = Key(admin.namespace, "tiny"), Cache()
    cache.put(LLM_SERVICES, admin.create(tiny()))
    api = await _connect(plane)
    try:
        reconciler = _reconciler(api, cache, admin.namespace)
        await reconciler.reconcile(key)
        front = (everything(admin) or {})["Service"]
        admin.delete("Service", "tiny")
        cache.forget(resources.SERVICES, key)
        await reconciler.reconcile(key)
    finally:
        await api.close()
    made = admin.get("Service", "tiny")
    assert made is not None
    assert made["metadata"]["uid"] != front["metadata"]["uid"]


async def test_no_object_is_created_for_deleted_service_in_stale_cache(
    plane: ControlPlane, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.controller.writer.FRESH_SECONDS", 0)
    key, cache = Key(admin.namespace, "tiny"), Cache()
    cache.put(LLM_SERVICES, admin.create(tiny()))
    admin.delete("LLMService", "tiny")
    api = await _connect(plane)
    try:
        await _reconciler(api, cache, admin.namespace).reconcile(key)
    finally:
        await api.close()
    assert not any(admin.get(kind, name) for kind, name in NAMES.items())
    assert cache.get(LLM_SERVICES, key) is None


async def _connect(plane: ControlPlane) -> Api:
    configuration = Configuration()
    await load_kube_config(  # type: ignore[no-untyped-call]
        str(plane.kubeconfig), client_configuration=configuration, persist_config=False
    )
    return Api(configuration)


def _owner(manifest: dict[str, Any]) -> str | None:
    owners = manifest["metadata"].get("ownerReferences") or [{}]
    found: str | None = owners[0].get("uid")
    return found


def _reconciler(api: Api, cache: Cache, namespace: str) -> Reconciler:
    """Return a reconciler without running watches: the test delivers their events."""
    watches = Watches(api, cache, namespaces=[namespace], nodes=False)
    watches.kuberay.installed = True
    prober = Prober(HttpModelClient(), lambda _: None)
    platform = Platform(ray_image="ray", ray_cpu_image="ray-cpu")
    around = parts(cache, watches, platform, api)
    observer = Observer(around, None, PortAllocator(cache))
    adapters = adapter_prober(http_reporter(), lambda _: None)
    copies = CopyProber(copy_reports.http_reporter(), lambda _: None)
    return Reconciler(around, observer, prober, adapters, copies, JobEvents(api, lambda _: None))
