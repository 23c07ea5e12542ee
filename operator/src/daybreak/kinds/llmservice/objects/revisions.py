"""Revisions of a service: `spec.models` and `spec.runtime`, which determine the Ray cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.rollouts import revisions
from daybreak.rollouts.revisions import Revision

_FIELDS = ("models", "runtime")


def content(svc: LLMService) -> dict[str, Any]:
    """Return the part of a service that a revision keeps."""
    return revisions.content(svc.spec, _FIELDS)


def with_own(svc: LLMService, known: Sequence[Revision]) -> tuple[Revision, tuple[Revision, ...]]:
    """Return the revision that a service requests, and all known revisions including that one."""
    return revisions.with_own(svc.name, content(svc), known)


def applied(svc: LLMService, name: str | None, known: Sequence[Revision]) -> LLMService | None:
    """Return the service with the named revision, or None to use its current spec.

    If that revision does not exist or is no longer valid, the current spec is the only known one.
    """
    if name is None or name == with_own(svc, known)[0].name:
        return None
    found = next((each for each in known if each.name == name), None)
    return built_of(svc, found) if found is not None else None


def built_of(svc: LLMService, revision: Revision) -> LLMService | None:
    """Return the service with another revision's models and Ray pods, or None if the revision is invalid."""
    spec = revisions.with_content(svc.spec, _FIELDS, revision.data)
    return replace(svc, spec=spec) if spec is not None else None


def controller_revision(svc: LLMService, revision: Revision) -> dict[str, Any]:
    """Return the ControllerRevision that keeps a revision."""
    found = metadata(svc, revision.name, revisions.COMPONENT)
    return revisions.controller_revision(found, revision)
