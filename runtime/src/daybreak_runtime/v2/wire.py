"""Wire format: JSON, followed by tensors as bytes (the binary tensor data extension)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json as read_json
from pydantic_core import to_json as write_json

from daybreak_runtime.v2.hints import Field
from daybreak_runtime.v2.problem import BadInput
from daybreak_runtime.v2.tensor import DTYPES, Array, datatype_of, from_bytes, from_json, to_bytes, to_json

HEADER_LENGTH = "inference-header-content-length"
JSON = "application/json"
BINARY = "application/octet-stream"


@dataclass(frozen=True)
class InferenceRequest:
    """Parsed inference request.

    Attributes:
        id: Id of the request, or "".
        parameters: Parameters of the whole request.
        tensors: Tensors by name.
        outputs: Requested outputs with "as bytes", or None for all.
        binary: True if outputs are sent as bytes by default.
    """

    id: str
    parameters: Mapping[str, Any]
    tensors: Mapping[str, Array]
    outputs: Mapping[str, bool | None] | None
    binary: bool


def read(body: bytes, header_length: str | None) -> InferenceRequest:
    """Parse a request. Raises BadInput if it is invalid."""
    length = len(body)
    if header_length is not None:
        if not header_length.isdecimal() or int(header_length) > len(body):
            raise BadInput(
                f"Inference-Header-Content-Length {header_length[:20]} is more than the body, or no number"
            )
        length = int(header_length)
    try:
        report = read_json(body[:length], allow_inf_nan=True)
    except ValueError as error:
        raise BadInput(f"the request is no JSON: {str(error)[:200]}") from error
    report = _mapping(report, "the request")
    inputs = report.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise BadInput("the request has no inputs")
    tensors: dict[str, Array] = {}
    rest = memoryview(body)[length:]
    for each in inputs:
        name, array, rest = _tensor(_mapping(each, "an input"), rest)
        if name in tensors:
            raise BadInput(f"input {name} is there twice")
        tensors[name] = array
    if rest:
        raise BadInput(f"{len(rest)} bytes behind the last tensor belong to none")
    parameters = _mapping(report.get("parameters", {}), "parameters")
    identity = report.get("id", "")
    if not isinstance(identity, str):
        raise BadInput("id is no text")
    return InferenceRequest(
        identity,
        parameters,
        tensors,
        _requested_outputs(report.get("outputs")),
        parameters.get("binary_data_output") is True,
    )


def values(fields: Sequence[Field], tensors: Mapping[str, Array]) -> dict[str, Any]:
    """Return the arguments of a hook. Raises BadInput for an unknown name, or a wrong datatype or shape."""
    unknown = [name for name in tensors if name not in {each.name for each in fields}]
    if unknown:
        takes = ", ".join(each.name for each in fields)
        raise BadInput(f"there is no input {', '.join(unknown)}; the model takes {takes}")
    found: dict[str, Any] = {}
    for each in fields:
        array = tensors.get(each.name)
        if array is None:
            if each.required:
                raise BadInput(f"the input {each.name} ({each.tensor}) is missing")
            continue
        datatype = datatype_of(array)
        if not each.tensor.fits(datatype, array.shape):
            raise BadInput(
                f"input {each.name} is {each.tensor}, and the request has {datatype}{list(array.shape)}"
            )
        found[each.name] = each.value(array)
    return found


def answer(
    head: Mapping[str, Any], tensors: Mapping[str, Array], requested: InferenceRequest
) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of a response; `head` has its fields besides the outputs. Raises BadInput."""
    outputs: list[dict[str, Any]] = []
    parts: list[bytes] = []
    names = tensors if requested.outputs is None else requested.outputs
    unknown = [name for name in names if name not in tensors]
    if unknown:
        raise BadInput(f"there is no output {', '.join(unknown)}; the model gives {', '.join(tensors)}")
    for name in names:
        array = tensors[name]
        written: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        chosen = None if requested.outputs is None else requested.outputs[name]
        if requested.binary if chosen is None else chosen:
            parts.append(to_bytes(array))
            written["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            try:
                written["data"] = to_json(array)
            except UnicodeDecodeError as error:
                raise BadInput(f"output {name} is no text: ask for it with binary_data") from error
        outputs.append(written)
    message = write_json({**head, **({"id": requested.id} if requested.id else {}), "outputs": outputs})
    if not parts:
        return message, {"content-type": JSON}
    return b"".join([message, *parts]), {"content-type": BINARY, HEADER_LENGTH: str(len(message))}


def _tensor(report: Mapping[str, Any], rest: memoryview) -> tuple[str, Array, memoryview]:
    name, datatype, shape = report.get("name"), report.get("datatype"), report.get("shape")
    if not isinstance(name, str) or not name:
        raise BadInput("an input has no name")
    if not isinstance(datatype, str) or datatype not in DTYPES:
        raise BadInput(f"input {name}: {str(datatype)[:20]} is none of the datatypes {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise BadInput(f"input {name}: its shape is no list of sizes")
    size = _mapping(report.get("parameters", {}), f"input {name}: parameters").get("binary_data_size")
    if size is None:
        if "data" not in report:
            raise BadInput(f"input {name} has no data")
        return name, from_json(name, datatype, shape, report["data"]), rest
    if type(size) is not int or not 0 <= size <= len(rest):
        raise BadInput(
            f"input {name}: binary_data_size {str(size)[:20]} exceeds the remaining bytes, or is not a size"
        )
    if datatype == "BYTES" and math.prod(shape) * 4 > size:
        raise BadInput(f"input {name}: {shape} of BYTES needs more than {size} bytes")
    return name, from_bytes(name, datatype, shape, rest[:size]), rest[size:]


def _requested_outputs(report: Any) -> dict[str, bool | None] | None:
    if report is None:
        return None
    if not isinstance(report, list):
        raise BadInput("outputs is no list")
    found: dict[str, bool | None] = {}
    for each in report:
        name = _mapping(each, "an output").get("name")
        if not isinstance(name, str):
            raise BadInput("an output has no name")
        parameters = _mapping(each.get("parameters", {}), f"output {name}: parameters")
        if "classification" in parameters:
            raise BadInput("the classification extension is not supported")
        chosen = parameters.get("binary_data")
        found[name] = chosen if isinstance(chosen, bool) else None
    return found or None


def _mapping(report: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(report, dict):
        raise BadInput(f"{what} is no object")
    return report
