"""Paths of an application that the gateway forwards, some of them to separate Serve applications."""

from typing import Annotated

from pydantic import Field

from daybreak.api.ray.model import EngineArgs
from daybreak.api.schema.base import ApiModel, Rule

IMPORT_PATH = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
_SEGMENT = "[A-Za-z0-9_~][A-Za-z0-9._~-]*"
Prefix = Annotated[str, Field(pattern=rf"^/({_SEGMENT}(/{_SEGMENT})*)?$", max_length=128)]


class Route(ApiModel):
    """Path prefix: the gateway forwards it and the paths below it."""

    rules = (
        Rule(
            "self.prefix != '/' || !has(self.importPath)",
            "at / there is the application of spec.importPath: give the route another prefix",
            lambda self: self.prefix != "/" or self.import_path is None,
        ),
    )

    prefix: Prefix
    """Path prefix, such as `/words`; `/` matches every path."""
    import_path: Annotated[str, Field(max_length=256, pattern=IMPORT_PATH)] | None = None
    """Import path of a separate Serve application that receives the requests of this route. Defaults to
    the application of `spec.importPath`."""
    args: EngineArgs | None = None
    """Arguments of the function of `importPath`, by name."""
