"""Type hints of a model's hooks as tensors: for its metadata, and for the arguments and results of hooks."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from daybreak_runtime.v2.problem import BadInput
from daybreak_runtime.v2.request import Request
from daybreak_runtime.v2.tensor import DTYPES, Array, Tensor, texts

OUTPUT = "output"
"""Name of a hook's result if its hint does not name it."""
_SCALARS: dict[Any, str] = {bool: "BOOL", int: "INT64", float: "FP64", str: "BYTES", bytes: "BYTES"}


@dataclass(frozen=True)
class Field:
    """Tensor with its name and its type in Python.

    Attributes:
        name: Name of the tensor and of the parameter.
        tensor: Datatype and shape.
        element: `str`, `float` ... if the hook has a list or a single value instead of an array.
        single: True for one value instead of a list.
        required: True if a request must have it.
    """

    name: str
    tensor: Tensor
    element: Any = None
    single: bool = False
    required: bool = True

    @property
    def rows(self) -> bool:
        """True if the first size is the batch."""
        return bool(self.tensor.shape) and self.tensor.shape[0] == -1

    def value(self, array: Array) -> Any:
        """Return the argument of a hook for a tensor. Raises BadInput for text that is not UTF-8."""
        if self.element is None:
            return array
        if self.element is str:
            try:
                found = [each.decode() for each in array.reshape(-1)]
            except UnicodeDecodeError as error:
                raise BadInput(f"input {self.name}: its text is not UTF-8") from error
        else:
            found = array.reshape(-1).tolist()
        return found[0] if self.single else found

    def array(self, value: Any) -> Array:
        """Return the tensor of a hook's result. Raises ValueError if it contradicts the hint."""
        if self.single:
            value = [value]
        if self.tensor.datatype == "BYTES":
            found = value if isinstance(value, np.ndarray) else _text_array(value)
        else:
            found = np.asarray(value, dtype=DTYPES[self.tensor.datatype])
        if not self.tensor.fits(self.tensor.datatype, found.shape):
            raise ValueError(
                f"{self.name} is {self.tensor}, and the model gave the shape {list(found.shape)}"
            )
        return found


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a hook.

    Attributes:
        inputs: Inputs in the order of its parameters.
        outputs: Outputs; more than one with a TypedDict.
        named: True if the hook returns a mapping by name.
        request: Parameter for the `Request`, or None.
    """

    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    named: bool = False
    request: str | None = field(default=None)


def signature(hook: Callable[..., Any], *, inputs: bool = True, outputs: bool = True) -> Signature:
    """Return the signature of a hook, from its hints.

    Args:
        hook: Bound method, so without `self`.
        inputs: True if its arguments are tensors.
        outputs: True if its result is tensors.

    Raises:
        TypeError: A parameter or the result has no hint, or one that is not a tensor.
    """
    hints = get_type_hints(hook, include_extras=True)
    taken, request = [], None
    for parameter in inspect.signature(hook).parameters.values():
        if inputs and parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            raise TypeError(f"{_name(hook)}: *{parameter.name} has no name in a request")
        hint = hints.get(parameter.name)
        if hint is Request:
            request = parameter.name
            continue
        if inputs:
            taken.append(_field(hook, parameter.name, hint, parameter.default is parameter.empty))
    if not outputs:
        return Signature(tuple(taken), (), False, request)
    given = hints.get("return")
    if is_typeddict(given):
        named = get_type_hints(given, include_extras=True)
        fields = tuple(_field(hook, name, hint, True) for name, hint in named.items())
        return Signature(tuple(taken), fields, True, request)
    return Signature(tuple(taken), (_field(hook, OUTPUT, given, True),), False, request)


def outputs_of(fields: tuple[Field, ...], named: bool, given: Any) -> dict[str, Array]:
    """Return the tensors of a hook's result. Raises ValueError if it contradicts the hints."""
    if not named:
        return {fields[0].name: fields[0].array(given)}
    if not isinstance(given, Mapping) or set(given) != {each.name for each in fields}:
        has = sorted(given) if isinstance(given, Mapping) else type(given).__name__
        raise ValueError(f"the model gave {has} instead of {sorted(each.name for each in fields)}")
    return {each.name: each.array(given[each.name]) for each in fields}


def _field(hook: Callable[..., Any], name: str, hint: Any, required: bool) -> Field:
    if get_origin(hint) is Annotated:
        tensors = [each for each in get_args(hint)[1:] if isinstance(each, Tensor)]
        if tensors:
            return Field(name, tensors[0], required=required)
    if hint in _SCALARS:
        return Field(name, Tensor(_SCALARS[hint], 1), hint, single=True, required=required)
    if get_origin(hint) is list and get_args(hint)[0] in _SCALARS:
        element = get_args(hint)[0]
        return Field(name, Tensor(_SCALARS[element], -1), element, required=required)
    what = "what it gives" if name == OUTPUT else f"its parameter {name}"
    raise TypeError(
        f"{_name(hook)}: {what} needs a hint that is a tensor, such as list[str] or "
        'Annotated[np.ndarray, Tensor("FP32", -1, 4)]'
    )


def _text_array(value: Any) -> Array:
    found = list(value)
    if any(not isinstance(each, str | bytes) for each in found):
        raise ValueError("the model gave something else than text")
    return texts(found)


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__qualname__", repr(hook))
