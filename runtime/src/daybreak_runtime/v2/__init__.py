"""Open Inference Protocol V2 over HTTP: tensors, hints, wire format and paths. Knows no Ray."""

from daybreak_runtime.v2.problem import BadInput, NotFound, Problem
from daybreak_runtime.v2.request import Request
from daybreak_runtime.v2.tensor import Tensor

__all__ = ["BadInput", "NotFound", "Problem", "Request", "Tensor"]
