"""Revisions of a server: the part of its spec that shapes the pods."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import Engines
from daybreak.api.modelserver.spec import ModelServerSpec
from daybreak.kinds.modelserver.objects.metadata import metadata
from daybreak.rollouts import revisions
from daybreak.rollouts.revisions import Revision

_NOT_OF_PODS = frozenset(
    {"replicas", "autoscaling", "max_ongoing_requests", "rollout", "state", "sleep", "hold", "access"}
)
"""Fields of the spec that do not change pods."""
_FIELDS = frozenset(ModelServerSpec.model_fields) - _NOT_OF_PODS


def content(server: ModelServer) -> dict[str, Any]:
    """Return the part of a server that a revision keeps."""
    return revisions.content(server.spec, _FIELDS)


def with_own(server: ModelServer, known: Sequence[Revision]) -> tuple[Revision, tuple[Revision, ...]]:
    """Return the revision that a server requests, and all known revisions including that one."""
    return revisions.with_own(server.owner, content(server), known)


def built_of(server: ModelServer, revision: Revision, engines: Engines) -> ModelServer | None:
    """Return the server with another revision's pods, or None if that or its engine is not available."""
    spec = revisions.with_content(server.spec, _FIELDS, revision.data)
    engine = engines.get(spec.engine) if spec is not None else None
    return replace(server, spec=spec, engine=engine) if spec is not None and engine is not None else None


def controller_revision(server: ModelServer, revision: Revision) -> dict[str, Any]:
    """Return the ControllerRevision that keeps a revision."""
    return revisions.controller_revision(metadata(server, revision.name, revisions.COMPONENT), revision)
