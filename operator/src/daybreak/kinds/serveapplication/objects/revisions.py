"""Revisions of an application: its spec's code, deployments and pods, and the digest of its files.

Files in a ConfigMap are known only by their digest: a previous revision can be recreated while its ConfigMap
still has the same files.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from daybreak.api.common.unstructured import at, text
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.kinds.serveapplication.objects.metadata import metadata
from daybreak.rollouts import revisions
from daybreak.rollouts.revisions import Revision

_FIELDS = (
    "import_path",
    "args",
    "code",
    "deployments",
    "llms",
    "worker_groups",
    "accelerator",
    "runtime",
    "routes",
)
_ROUTES = "routes"
_FILES = "files"
"""Field of a revision with the digest of the files in its ConfigMap."""


def with_own(
    application: ServeApplication, files: str, known: Sequence[Revision]
) -> tuple[Revision, tuple[Revision, ...]]:
    """Return the revision that an application requests, and all known revisions including that one.

    `files` is the digest of the ConfigMap with the code. Empty if the code has another source or is unknown.
    """
    data = revisions.content(application.spec, _FIELDS)
    # Routes without an import path concern only the gateway.
    routes = [each for each in data.pop(_ROUTES, ()) if "importPath" in each]
    data |= {_ROUTES: routes} if routes else {}
    return revisions.with_own(application.owner, data | ({_FILES: files} if files else {}), known)


def built_of(application: ServeApplication, revision: Revision) -> ServeApplication | None:
    """Return the application with another revision's code, deployments and pods, or None if it is invalid."""
    data = {name: value for name, value in revision.data.items() if name != _FILES}
    spec = revisions.with_content(application.spec, _FIELDS, data)
    return replace(application, spec=spec) if spec is not None else None


def config_map_of(revision: Revision) -> str:
    """Return the name of the ConfigMap with the code; empty if the code has another source."""
    return text(at(revision.data, "code").get("configMap"))


def files_of(revision: Revision) -> str:
    """Return the digest of the files in that ConfigMap; empty if they are unknown, or if there are none."""
    return text(revision.data.get(_FILES))


def controller_revision(application: ServeApplication, revision: Revision) -> dict[str, Any]:
    """Return the ControllerRevision that keeps a revision."""
    found = metadata(application, revision.name, revisions.COMPONENT)
    return revisions.controller_revision(found, revision)
