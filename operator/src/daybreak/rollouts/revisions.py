"""Revisions of a workload's Ray cluster (previous, current and requested) as ControllerRevisions."""

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
    """Increasing number. A revision that is requested again keeps its number."""
    data: Mapping[str, Any]
    """Content of the revision, as the user wrote it."""


def read(manifests: Iterable[Manifest]) -> tuple[Revision, ...]:
    """Return the revisions in ControllerRevisions, oldest first."""
    found = [
        Revision(
            text(at(each, "metadata").get("name")), whole(each.get("revision")), mapping(each.get("data"))
        )
        for each in manifests
        if not at(each, "metadata").get("deletionTimestamp")
    ]
    return tuple(sorted(found, key=lambda revision: (revision.number, revision.name)))


def content(spec: ApiModel, fields: Collection[str]) -> dict[str, Any]:
    """Return the content of a spec that a revision keeps: these fields, by their names in Python.

    The content is as the user wrote it, without the API's defaults. A field that a new operator adds
    therefore creates no new revision.
    """
    found: dict[str, Any] = spec.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, include=set(fields)
    )
    return found


def with_content(spec: S, fields: Collection[str], data: Mapping[str, Any]) -> S | None:
    """Return a spec with these fields replaced by a revision's content, or None if the content is invalid."""
    rest = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(fields))
    try:
        return type(spec).model_validate({**rest, **data})
    except ValidationError:
        return None


def with_own(
    owner: str, data: Mapping[str, Any], known: Sequence[Revision]
) -> tuple[Revision, tuple[Revision, ...]]:
    """Return the revision with this content, and all known revisions including this one.

    `owner` is the value that identifies the workload in names of its objects.
    """
    name = names.revision(owner, canonical.digest(data, 10))
    own = next((each for each in known if each.name == name or each.data == data), None)
    if own is not None:
        return own, tuple(known)
    number = 1 + max((revision.number for revision in known), default=0)
    own = Revision(name, number, data)
    return own, (*known, own)


def controller_revision(metadata: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
    """Return the ControllerRevision that stores a revision.

    The keys have the order in which the API server writes them after any patch. The API server compares
    bytes, and would treat another order as a change of immutable data. The garbage collector could then not
    remove the owner, and a deletion with `--cascade=orphan` would not end.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": dict(metadata),
        "revision": revision.number,
        "data": _sorted(revision.data),
    }


def kept(revisions: Sequence[Revision], in_use: Collection[str | None], limit: int) -> list[Revision]:
    """Return the revisions to keep: all in use, and the newest of the others."""
    others = [revision for revision in revisions if revision.name not in in_use]
    stay = {revision.name for revision in others[-limit:]}
    return [each for each in revisions if each.name in in_use or each.name in stay]


def _sorted(value: Any) -> Any:
    """Return a value with sorted keys in every object."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
