"""Models on Ray Serve with the Open Inference Protocol V2: `class Mine(Model)`, `app = application(Mine)`.

`importPath` names `app`; its `args` are those of `daybreak_runtime.models.args.Args`. Only `application`
needs Ray: a model is imported and tested without it.
"""

from typing import TYPE_CHECKING, Any

from daybreak_runtime.models.model import Model
from daybreak_runtime.v2 import BadInput, NotFound, Problem, Request, Tensor

if TYPE_CHECKING:
    from daybreak_runtime.models.builder import application

__all__ = ["BadInput", "Model", "NotFound", "Problem", "Request", "Tensor", "application"]


def __getattr__(name: str) -> Any:
    if name != "application":
        raise AttributeError(f"{__name__} has no {name}")
    from daybreak_runtime.models.builder import application

    return application
