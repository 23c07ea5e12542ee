"""Revisions: what the Ray cluster of a workload was, is or shall be made of, as ControllerRevisions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from daybreak.api.common import canonical, names
from daybreak.api.common.unstructured import Manifest, at, mapping, text, whole
from daybreak.api.schema.base import ApiModel

COMPONENT = "revision"
"""Component label of ControllerRevisions."""


S = TypeVar("S", bound=ApiModel)


@dataclass(frozen=True)
class Revision:
    """One revision."""

    name: str
    number: int
    """Counts up; one that is asked for again keeps its number."""
    data: Mapping[str, Any]
    """What the person had written."""


def read(manifests: Iterable[Manifest]) -> tuple[Revision, ...]:
    """ControllerRevisions, read; the oldest first."""
    found = [
        Revision(
            text(at(each, "metadata").get("name")), whole(each.get("revision")), mapping(each.get("data"))
        )
        for each in manifests
        if not at(each, "metadata").get("deletionTimestamp")
    ]
    return tuple(sorted(found, key=lambda revision: (revision.number, revision.name)))


def content(spec: ApiModel, fields: Collection[str]) -> dict[str, Any]:
    """What a revision keeps of a spec, of these fields by their names in Python: what the person has written,
    without the API's own defaults, so that a field which a new operator adds makes no new revision."""
    found: dict[str, Any] = spec.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, include=set(fields)
    )
    return found


def with_content(spec: S, fields: Collection[str], data: Mapping[str, Any]) -> S | None:
    """A spec with what a revision keeps in the place of these fields; None when that cannot be read."""
    rest = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(fields))
    try:
        return type(spec).model_validate({**rest, **data})
    except ValidationError:
        return None


def with_own(
    owner: str, data: Mapping[str, Any], known: Sequence[Revision]
) -> tuple[Revision, tuple[Revision, ...]]:
    """The revision with this content, and all that are known, this one among them.

    `owner` is what stands for the workload in names of its objects.
    """
    name = names.revision(owner, canonical.digest(data, 10))
    own = next((each for each in known if each.name == name or each.data == data), None)
    if own is not None:
        return own, tuple(known)
    number = 1 + max((revision.number for revision in known), default=0)
    own = Revision(name, number, data)
    return own, (*known, own)


def controller_revision(metadata: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
    """The ControllerRevision that keeps a revision.

    What it keeps is written in the order in which the API server writes it after any patch: that compares
    bytes, and would take another order for a change of what may not change. The garbage collector could not
    take the owner away then, and a deletion with `--cascade=orphan` would not end.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": dict(metadata),
        "revision": revision.number,
        "data": _sorted(revision.data),
    }


def kept(revisions: Sequence[Revision], in_use: Collection[str | None], limit: int) -> list[Revision]:
    """Those that stay: all that are in use, and of the others the newest."""
    others = [revision for revision in revisions if revision.name not in in_use]
    stay = {revision.name for revision in others[-limit:]}
    return [each for each in revisions if each.name in in_use or each.name in stay]


def _sorted(value: Any) -> Any:
    """The same with the keys of every object in their order."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
