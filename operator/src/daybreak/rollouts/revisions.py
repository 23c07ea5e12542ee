"""Revisions: what the Ray cluster of a workload was, is or shall be made of, as ControllerRevisions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daybreak.api.common import canonical
from daybreak.api.common.unstructured import Manifest, at, mapping, text, whole

COMPONENT = "revision"
"""Component label of ControllerRevisions."""


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


def digest(data: Mapping[str, Any]) -> str:
    """Digest of a revision's content, for its name."""
    return canonical.digest(data, 10)


def next_number(revisions: Iterable[Revision]) -> int:
    """Number of a revision that comes."""
    return 1 + max((revision.number for revision in revisions), default=0)


def kept(revisions: Sequence[Revision], in_use: Collection[str | None], limit: int) -> list[Revision]:
    """Those that stay: all that are in use, and of the others the newest."""
    others = [revision for revision in revisions if revision.name not in in_use]
    stay = {revision.name for revision in others[-limit:]}
    return [each for each in revisions if each.name in in_use or each.name in stay]
