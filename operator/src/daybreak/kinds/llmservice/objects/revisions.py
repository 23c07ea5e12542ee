"""The revisions of a service: `spec.models` and `spec.runtime`, of which the Ray cluster is made."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.rollouts import revisions
from daybreak.rollouts.revisions import Revision


def content(svc: LLMService) -> dict[str, Any]:
    """What a revision keeps of a service: what the person has written, without the API's own defaults, so
    that a field which a new operator adds makes no new revision."""
    found: dict[str, Any] = svc.spec.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, include={"models", "runtime"}
    )
    return found


def with_own(svc: LLMService, known: Sequence[Revision]) -> tuple[Revision, tuple[Revision, ...]]:
    """The revision that a service asks for, and all that are known, this one among them."""
    data = content(svc)
    name = names.revision(svc.name, revisions.digest(data))
    own = next((each for each in known if each.name == name or each.data == data), None)
    if own is not None:
        return own, tuple(known)
    own = Revision(name, revisions.next_number(known), data)
    return own, (*known, own)


def applied(svc: LLMService, name: str | None, known: Sequence[Revision]) -> LLMService | None:
    """The service as it is built at present, of the revision of that name; None: as it is written.

    Where that revision is not there, or cannot be read any more, what is written is all that is known.
    """
    if name is None or name == with_own(svc, known)[0].name:
        return None
    found = next((each for each in known if each.name == name), None)
    return built_of(svc, found) if found is not None else None


def built_of(svc: LLMService, revision: Revision) -> LLMService | None:
    """The service with another revision's models and Ray pods; None when that cannot be read."""
    rest = svc.spec.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"models", "runtime"}
    )
    try:
        spec = LLMServiceSpec.model_validate({**rest, **revision.data})
    except ValidationError:
        return None
    return replace(svc, spec=spec)


def controller_revision(svc: LLMService, revision: Revision) -> dict[str, Any]:
    """The ControllerRevision that keeps a revision.

    What it keeps is written in the order in which the API server writes it after any patch: that compares
    bytes, and would take another order for a change of what may not change. The garbage collector could not
    take the owner away then, and a deletion with `--cascade=orphan` would not end.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(svc, revision.name, revisions.COMPONENT),
        "revision": revision.number,
        "data": _sorted(revision.data),
    }


def _sorted(value: Any) -> Any:
    """The same with the keys of every object in their order."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
