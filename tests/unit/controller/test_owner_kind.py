"""A kind whose objects are reconciled one by one."""

import pytest

from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.controller.owner_kind import OwnerKind
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import PODS, RAY_JOBS


class Reconciler:
    """Fake that records the reconciled objects."""

    def __init__(self) -> None:
        self.given: list[Key] = []
        self.closed = 0

    async def reconcile(self, key: Key) -> float | None:
        self.given.append(key)
        return 3.0

    async def close(self) -> None:
        self.closed += 1


def kind(resource: object = LLM_BATCHES) -> OwnerKind:
    assert resource in (LLM_BATCHES, LLM_SERVICES)
    return OwnerKind(LLM_BATCHES if resource is LLM_BATCHES else LLM_SERVICES, Cache(), (), Reconciler())


@pytest.mark.parametrize(
    ("name", "batch", "service"),
    [("night", None, "night"), ("batch.night", "night", None), ("server.chat", None, None), ("", None, None)],
)
def test_object_concerns_owner_that_its_label_names(
    name: str, batch: str | None, service: str | None
) -> None:
    for found, mine in ((kind(), batch), (kind(LLM_SERVICES), service)):
        desired = None if mine is None else (Key("team", mine), 0.0)
        assert found.concerned(PODS, OwnerKey.of_label("team", name)) == desired


def test_an_object_of_the_kind_concerns_itself() -> None:
    assert kind().concerned(LLM_BATCHES, OwnerKey("LLMBatch", "team", "night")) == (Key("team", "night"), 0.0)


async def test_owner_kind_delegates_reconcile_and_closes_background_tasks() -> None:
    reconciler = Reconciler()
    found = OwnerKind(LLM_BATCHES, Cache(), (RAY_JOBS,), reconciler, [reconciler, reconciler])
    assert (found.name, set(found.watched)) == ("LLMBatch", {LLM_BATCHES, RAY_JOBS})
    assert await found.reconcile(Key("team", "night")) == 3.0
    assert await found.concerned_by_nodes() == ()
    await found.close()
    assert (reconciler.given, reconciler.closed) == ([Key("team", "night")], 2)
