"""Looking a second time within one reconcile: the objects of now, with the spec of the first look."""

from types import SimpleNamespace
from typing import Any, cast

from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import Resource
from daybreak.kinds.llmservice.observe.observer import Observer
from daybreak.kube.resources import RAY_SERVICES
from daybreak.kube.watching.cache import Cache, Key
from daybreak.kube.watching.watches import Watches

KEY = Key("ns", "s")


def _put(cache: Cache, resource: Resource, version: int, uid: str, **rest: Any) -> None:
    metadata = {"namespace": "ns", "name": "s", "uid": uid, "resourceVersion": str(version)}
    cache.put(resource, {"metadata": metadata, **rest})


def _around(uid: str) -> tuple[Cache, Observer]:
    """A cache with an LLMService and its RayService, and who looks at it."""
    cache = Cache()
    model = {"name": "m", "source": "hf://a/b"}
    _put(cache, LLM_SERVICES, 1, uid, spec={"models": [model]})
    _put(cache, RAY_SERVICES, 2, "ray", status={"serviceStatus": "WaitForServeDeploymentReady"})
    watches = SimpleNamespace(kuberay_installed=True, nodes_known=False)
    return cache, Observer(cache, cast(Watches, watches), None)


def test_what_has_changed_is_seen() -> None:
    cache, observer = _around("one")
    first = observer.observe(KEY)
    assert first is not None
    _put(cache, LLM_SERVICES, 3, "one", spec={"models": []})
    _put(cache, RAY_SERVICES, 4, "ray", status={"serviceStatus": "Running"})
    second = observer.again(KEY, first)
    assert second.ray_service is not None
    assert second.ray_service["status"] == {"serviceStatus": "Running"}
    assert second.now >= first.now
    assert (second.manifest, second.service) == (first.manifest, first.service)


def test_a_successors_objects_are_not_looked_at() -> None:
    cache, observer = _around("one")
    first = observer.observe(KEY)
    assert first is not None
    _put(cache, LLM_SERVICES, 3, "two", spec={"models": []})
    _put(cache, RAY_SERVICES, 4, "ray of two")
    assert observer.again(KEY, first) == first
    cache.forget(LLM_SERVICES, KEY)
    assert observer.again(KEY, first) == first
