"""References of objects: a change of the target requeues the referring objects."""

from typing import Any

import pytest

from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.controller.jobs.references import References
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key

NIGHT = Key("team", "night")


def service(name: str, version: int, namespace: str = "team") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(version)}}


class Stage:
    """A cache, and the objects that were enqueued since the last call."""

    def __init__(self) -> None:
        self.cache = Cache()
        self._enqueued: list[Key] = []
        self.references = References(self.cache, self._enqueued.append)

    @property
    def enqueued(self) -> list[Key]:
        found = self._enqueued.copy()
        self._enqueued.clear()
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_referenced_object_is_found_by_kind_namespace_and_name(stage: Stage) -> None:
    stage.cache.put(LLM_SERVICES, service("chat", 1))
    stage.cache.put(LLM_SERVICES, service("z", 2))
    stage.cache.put(LLM_SERVICES, service("chat", 3, "other"))
    found = stage.references.look(NIGHT, LLM_SERVICES, "chat")
    assert (found.words, found.manifest is not None, found.others) == ("LLMService chat", True, ())
    found = stage.references.look(NIGHT, LLM_SERVICES, "absent")
    assert (found.manifest, found.others) == (None, ("chat", "z"))
    assert stage.references.look(NIGHT, LLM_BATCHES, "chat").manifest is None


def test_change_of_referenced_object_enqueues_referring_object(stage: Stage) -> None:
    stage.cache.put(LLM_SERVICES, service("chat", 1))
    stage.references.look(NIGHT, LLM_SERVICES, "chat")
    stage.cache.put(LLM_SERVICES, service("other", 2))
    stage.cache.put(LLM_SERVICES, service("chat", 3, "other"))
    stage.cache.put(LLM_BATCHES, service("chat", 4))
    assert stage.enqueued == []
    stage.cache.put(LLM_SERVICES, service("chat", 5))
    assert stage.enqueued == [NIGHT]
    with stage.cache.writing(LLM_SERVICES, Key("team", "chat")) as take:
        take(service("chat", 6), False)
    assert stage.enqueued == [NIGHT], "what the operator writes itself counts, too"
    stage.cache.drop(LLM_SERVICES, service("chat", 7))
    assert stage.enqueued == [NIGHT]


def test_object_with_missing_target_is_enqueued_when_objects_come_or_go(stage: Stage) -> None:
    stage.references.look(NIGHT, LLM_SERVICES, "chat")
    stage.cache.put(LLM_SERVICES, service("other", 1))
    assert stage.enqueued == [NIGHT], "the message names what there is"
    assert stage.references.look(NIGHT, LLM_SERVICES, "chat").others == ("other",)
    stage.cache.put(LLM_SERVICES, service("other", 2))
    assert stage.enqueued == [], "how the others are does not matter, and they may be a thousand"
    stage.cache.drop(LLM_SERVICES, service("other", 3))
    assert stage.enqueued == [NIGHT]
    stage.cache.put(LLM_SERVICES, service("chat", 4))
    assert stage.enqueued == [NIGHT]


def test_former_and_forgotten_referrers_are_not_enqueued(stage: Stage) -> None:
    stage.references.look(NIGHT, LLM_SERVICES, "chat")
    stage.references.look(Key("team", "day"), LLM_SERVICES, "chat")
    stage.references.look(NIGHT, LLM_BATCHES, "x")
    stage.cache.put(LLM_SERVICES, service("chat", 1))
    assert stage.enqueued == [Key("team", "day")]
    stage.references.forget(Key("team", "day"))
    stage.references.forget(Key("team", "day"))
    stage.cache.put(LLM_SERVICES, service("chat", 2))
    assert stage.enqueued == []
