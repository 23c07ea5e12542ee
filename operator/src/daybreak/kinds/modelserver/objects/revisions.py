"""The revisions of a server: what its spec says of the pods."""

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
"""Fields of a spec that change nothing in pods."""
_FIELDS = frozenset(ModelServerSpec.model_fields) - _NOT_OF_PODS


def content(server: ModelServer) -> dict[str, Any]:
    """What a revision keeps of a server."""
    return revisions.content(server.spec, _FIELDS)


def with_own(server: ModelServer, known: Sequence[Revision]) -> tuple[Revision, tuple[Revision, ...]]:
    """The revision that a server asks for, and all that are known, this one among them."""
    return revisions.with_own(server.owner, content(server), known)


def built_of(server: ModelServer, revision: Revision, engines: Engines) -> ModelServer | None:
    """The server with another revision's pods; None when that cannot be read, or its engine is not there."""
    spec = revisions.with_content(server.spec, _FIELDS, revision.data)
    engine = engines.get(spec.engine) if spec is not None else None
    return replace(server, spec=spec, engine=engine) if spec is not None and engine is not None else None


def controller_revision(server: ModelServer, revision: Revision) -> dict[str, Any]:
    """The ControllerRevision that keeps a revision."""
    return revisions.controller_revision(metadata(server, revision.name, revisions.COMPONENT), revision)
