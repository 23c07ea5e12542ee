"""Ownership of an object with a name that an owner needs."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.api.schema.resource import API_VERSION
from daybreak.manifests.keys import Key, key_of
from daybreak.manifests.owner import NameHolder, Owner
from daybreak.manifests.plan import Live
from daybreak.manifests.resources import RAY_JOBS, SERVICE_ACCOUNTS

OWNER = Owner(LLM_BATCHES, Key("team", "night"), "u-1")


def live(name: str = "a", *, owner: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a ServiceAccount with Daybreak's labels."""
    labels = names.labels("batch.night", "batch")
    references = {} if owner is None else {"ownerReferences": [owner]}
    whole = {"name": name, "namespace": "team", "labels": labels, **references, **metadata}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": whole}


def controlled(kind: str = "LLMBatch", name: str = "night", uid: str = "u-1") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid, "controller": True}


@pytest.mark.parametrize(
    ("found", "whose"),
    [
        (live(owner=controlled()), NameHolder.OURS),
        (live(owner=controlled(uid="u-0")), NameHolder.PREDECESSORS),
        (live(owner=controlled(name="other", uid="u-2")), NameHolder.FOREIGN),
        (live(owner=controlled(kind="LLMService", uid="u-2")), NameHolder.FOREIGN),
        (live(), NameHolder.ORPHAN),
        (live(labels={}), NameHolder.FOREIGN),
        (live(labels=names.labels("batch.other", "batch")), NameHolder.FOREIGN),
    ],
)
def test_name_holder_is_derived_from_owner_and_labels(found: dict[str, Any], whose: NameHolder) -> None:
    assert OWNER.whose(found) is whose


def test_only_owned_undesired_objects_are_surplus() -> None:
    kept = live("kept", owner=controlled())
    labeled = [
        kept,
        live("surplus", owner=controlled()),
        live("going", owner=controlled(), deletionTimestamp="2026-01-01T00:00:00Z"),
        live("theirs"),
    ]
    objects = Live({}, {(SERVICE_ACCOUNTS, key_of(each)): each for each in labeled})
    found = objects.surplus(OWNER, (SERVICE_ACCOUNTS, RAY_JOBS), [kept])
    assert [each["metadata"]["name"] for each in found] == ["surplus"]
