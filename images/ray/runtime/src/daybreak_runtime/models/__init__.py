"""Models on Ray Serve by the Open Inference Protocol V2: `class Mine(Model)`, `app = application(Mine)`.

`importPath` names `app`; its `args` are those of `daybreak_runtime.models.args.Args`.
"""

from daybreak_runtime.models.application import application
from daybreak_runtime.models.model import Model
from daybreak_runtime.v2 import BadInput, NotFound, Problem, Request, Tensor

__all__ = ["BadInput", "Model", "NotFound", "Problem", "Request", "Tensor", "application"]
