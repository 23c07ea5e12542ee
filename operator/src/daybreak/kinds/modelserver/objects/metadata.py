"""Names, labels and owner of the objects of a ModelServer."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.resource import KIND


def metadata(server: ModelServer, name: str, component: str = names.SERVER_COMPONENT) -> dict[str, Any]:
    """Return the metadata of an object that the ModelServer owns."""
    return owned_metadata(KIND, server, name, component)
