"""A second observation within one reconcile: current objects with the spec of the first observation."""

from types import SimpleNamespace
from typing import Any

from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import Resource
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.llmservice.observe.observer import Observer
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import RAY_SERVICES
from daybreak.platform import Platform
from tests.parts import parts

KEY = Key("ns", "s")


def _put(cache: Cache, resource: Resource, version: int, uid: str, **rest: Any) -> None:
    metadata = {"namespace": "ns", "name": "s", "uid": uid, "resourceVersion": str(version)}
    cache.put(resource, {"metadata": metadata, **rest})


def _around(uid: str) -> tuple[Cache, Observer]:
    """Return a cache with an LLMService and its RayService, and the observer."""
    cache = Cache()
    model = {"name": "m", "source": "hf://a/b"}
    _put(cache, LLM_SERVICES, 1, uid, spec={"models": [model]})
    _put(cache, RAY_SERVICES, 2, "ray", status={"serviceStatus": "WaitForServeDeploymentReady"})
    watches = SimpleNamespace(kuberay_installed=True, nodes_known=False)
    return cache, Observer(
        parts(cache, watches, Platform(ray_image="ray", ray_cpu_image="ray-cpu")), None, PortAllocator(cache)
    )


def test_second_observation_sees_new_objects_and_keeps_spec() -> None:
    cache, observer = _around("one")
    first = observer.observe(KEY)
    assert first is not None
    _put(cache, LLM_SERVICES, 3, "one", spec={"models": []})
    _put(cache, RAY_SERVICES, 4, "ray", status={"serviceStatus": "Running"})
    second = observer.again(KEY, first)
    assert second.ray_service is not None
    assert second.ray_service["status"] == {"serviceStatus": "Running"}
    assert second.now >= first.now
    assert (second.manifest, second.subject) == (first.manifest, first.subject)


def test_second_observation_is_unchanged_if_owner_is_replaced_or_deleted() -> None:
    cache, observer = _around("one")
    first = observer.observe(KEY)
    assert first is not None
    _put(cache, LLM_SERVICES, 3, "two", spec={"models": []})
    _put(cache, RAY_SERVICES, 4, "ray of two")
    assert observer.again(KEY, first) == first
    cache.forget(LLM_SERVICES, KEY)
    assert observer.again(KEY, first) == first
