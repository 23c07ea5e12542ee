"""The paths of an application that the gateway lets through, and Serve applications of their own at some."""

from typing import Annotated

from pydantic import Field

from daybreak.api.ray.model import EngineArgs
from daybreak.api.schema.base import ApiModel, Rule

IMPORT_PATH = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
_SEGMENT = "[A-Za-z0-9_~][A-Za-z0-9._~-]*"
Prefix = Annotated[str, Field(pattern=rf"^/({_SEGMENT}(/{_SEGMENT})*)?$", max_length=128)]


class Route(ApiModel):
    """A path prefix: it and what lies below it pass."""

    rules = (
        Rule(
            "self.prefix != '/' || !has(self.importPath)",
            "at / there is the application of spec.importPath: give the route another prefix",
            lambda self: self.prefix != "/" or self.import_path is None,
        ),
    )

    prefix: Prefix
    """The prefix, such as `/words`; `/`: every path."""
    import_path: Annotated[str, Field(max_length=256, pattern=IMPORT_PATH)] | None = None
    """Where a Serve application of its own is, which takes the requests there. Unset: they go to that of
    `spec.importPath`."""
    args: EngineArgs | None = None
    """Arguments of that function, by name."""
