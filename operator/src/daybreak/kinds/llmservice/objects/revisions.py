"""The revisions of a service: `spec.models` and `spec.runtime`, of which the Ray cluster is made."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.rollouts import revisions
from daybreak.rollouts.revisions import Revision

_FIELDS = ("models", "runtime")


def content(svc: LLMService) -> dict[str, Any]:
    """What a revision keeps of a service."""
    return revisions.content(svc.spec, _FIELDS)


def with_own(svc: LLMService, known: Sequence[Revision]) -> tuple[Revision, tuple[Revision, ...]]:
    """The revision that a service asks for, and all that are known, this one among them."""
    return revisions.with_own(svc.name, content(svc), known)


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
    spec = revisions.with_content(svc.spec, _FIELDS, revision.data)
    return replace(svc, spec=spec) if spec is not None else None


def controller_revision(svc: LLMService, revision: Revision) -> dict[str, Any]:
    """The ControllerRevision that keeps a revision."""
    found = metadata(svc, revision.name, revisions.COMPONENT)
    return revisions.controller_revision(found, revision)
