"""Names, labels and owner of the objects of a ServeApplication."""

from typing import Any

from daybreak.api.common.owned import owned_metadata
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.resource import KIND


def metadata(application: ServeApplication, name: str, component: str = "ray") -> dict[str, Any]:
    """Return the metadata of an object that the ServeApplication owns."""
    return owned_metadata(KIND, application, name, component)
