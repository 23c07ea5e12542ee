"""The revisions of an application: what its spec says of code, deployments and pods, and which files it had.

Files in a ConfigMap are known by their digest only: an earlier revision can be made again as long as its
ConfigMap still holds them.
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
    """The revision that an application asks for, and all that are known, this one among them.

    `files` is the digest of the ConfigMap with its code; empty: the code comes from elsewhere, or is not
    known.
    """
    data = revisions.content(application.spec, _FIELDS)
    # Which other paths pass is the gateway's alone.
    routes = [each for each in data.pop(_ROUTES, ()) if "importPath" in each]
    data |= {_ROUTES: routes} if routes else {}
    return revisions.with_own(application.owner, data | ({_FILES: files} if files else {}), known)


def built_of(application: ServeApplication, revision: Revision) -> ServeApplication | None:
    """The application with another revision's code, deployments and pods; None when that cannot be read."""
    data = {name: value for name, value in revision.data.items() if name != _FILES}
    spec = revisions.with_content(application.spec, _FIELDS, data)
    return replace(application, spec=spec) if spec is not None else None


def config_map_of(revision: Revision) -> str:
    """Name of the ConfigMap with its code; empty: its code comes from elsewhere."""
    return text(at(revision.data, "code").get("configMap"))


def files_of(revision: Revision) -> str:
    """Digest of the files in that ConfigMap; empty: they are not known, or there are none."""
    return text(revision.data.get(_FILES))


def controller_revision(application: ServeApplication, revision: Revision) -> dict[str, Any]:
    """The ControllerRevision that keeps a revision."""
    found = metadata(application, revision.name, revisions.COMPONENT)
    return revisions.controller_revision(found, revision)
