"""Libraries that only some images have."""

from importlib import import_module
from typing import Any


def needed(module: str, extra: str) -> Any:
    """Import a module. Raises ImportError with instructions to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{error}: the image needs `pip install daybreak-runtime[{extra}]`, or what that names"
        ) from error


def path_of(source: str) -> str:
    """Return the local path of a source, without `file://`. Raises ValueError if there is none."""
    if not source:
        raise ValueError("the arguments have no source")
    if "://" in source and not source.startswith("file://"):
        raise ValueError(f"{source}: this loader takes a path, such as that of a mounted claim")
    return source.removeprefix("file://")
