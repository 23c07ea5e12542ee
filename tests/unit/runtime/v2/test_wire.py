"""Tensors on the wire: what is read back is what was written, and nothing else is taken."""

import json
from typing import Annotated, Any, TypedDict

import numpy as np
import pytest

from daybreak_runtime.v2 import wire
from daybreak_runtime.v2.hints import outputs_of, signature
from daybreak_runtime.v2.paths import Path, find
from daybreak_runtime.v2.problem import BadInput, NotFound, Problem
from daybreak_runtime.v2.request import Request
from daybreak_runtime.v2.tensor import (
    DTYPES,
    Tensor,
    datatype_of,
    from_bytes,
    from_json,
    texts,
    to_bytes,
    to_json,
)


def example(datatype: str) -> Any:
    if datatype == "BYTES":
        return texts(["a", "", "ü€", "b", "c", "d"], [2, 3])
    values = [0, 1, 1, 0, 1, 0] if datatype == "BOOL" else [0, 1, 2, 3, 100, 127]
    return np.array(values, DTYPES[datatype]).reshape(2, 3)


@pytest.mark.parametrize("datatype", DTYPES)
def test_every_datatype_survives_bytes_and_json_round_trip(datatype: str) -> None:
    array = example(datatype)
    assert datatype_of(array) == datatype
    for found in (
        from_bytes("x", datatype, [2, 3], memoryview(to_bytes(array))),
        from_json("x", datatype, [2, 3], json.loads(json.dumps(to_json(array)))),
    ):
        assert found.tolist() == array.tolist()
        found[0, 0] = found[1, 1]  # A model may write into it.


def body(tensor: dict[str, Any], rest: bytes = b"") -> tuple[bytes, str]:
    head = json.dumps({"inputs": [{"name": "x", "datatype": "INT8", "shape": [2], **tensor}]}).encode()
    return head + rest, str(len(head))


@pytest.mark.parametrize(
    ("tensor", "rest", "message"),
    [
        ({"data": [1, 1.5]}, b"", "not INT8"),
        ({"data": [1, 300]}, b"", "more than INT8 holds"),
        ({"data": [True, False]}, b"", "not INT8"),
        ({"data": [1, None]}, b"", "not INT8"),
        ({"data": [[1], [1, 2]]}, b"", "rows differ"),
        ({"data": [[1], [2]]}, b"", "its data are [2, 1]"),
        ({"shape": [True]}, b"", "no list of sizes"),
        ({"shape": [2**70]}, b"", "no data"),
        ({"shape": [2**70, 0], "data": []}, b"", "shape"),
        ({"parameters": {"binary_data_size": 2}}, b"a", "exceeds the remaining bytes"),
        ({"parameters": {"binary_data_size": 1}}, b"a", "is 2 bytes, not 1"),
        ({"parameters": {"binary_data_size": 2}}, b"abc", "belong to none"),
        ({"parameters": {"binary_data_size": -1}}, b"abc", "or is not a size"),
        ({"datatype": "BYTES", "parameters": {"binary_data_size": 8}}, b"\x09\0\0\0abcd", "says 9 bytes"),
        ({"datatype": "BYTES", "data": ["a", 1]}, b"", "each is a text"),
        ({"datatype": "BF16", "data": [1, 2]}, b"", "none of the datatypes"),
        ({"name": ""}, b"", "no name"),
    ],
)
def test_invalid_tensor_is_rejected_with_reason(tensor: dict[str, Any], rest: bytes, message: str) -> None:
    written, length = body(tensor, rest)
    with pytest.raises(BadInput) as caught:
        wire.read(written, length)
    assert message in caught.value.message


@pytest.mark.parametrize("length", ["-1", "x", "99999"])
def test_invalid_header_length_is_rejected(length: str) -> None:
    with pytest.raises(BadInput):
        wire.read(body({"data": [1, 2]})[0], length)


def test_response_has_requested_outputs_in_requested_order_and_form() -> None:
    requested = wire.read(
        json.dumps(
            {
                "inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [1]}],
                "outputs": [{"name": "b"}, {"name": "a", "parameters": {"binary_data": False}}],
                "parameters": {"binary_data_output": True},
            }
        ).encode(),
        None,
    )
    outputs = {"a": np.array([1, 2], np.int16), "b": texts(["z"]), "c": np.zeros(1)}
    message, headers = wire.answer({"model_name": "m"}, outputs, requested)
    length = int(headers[wire.HEADER_LENGTH])
    head = json.loads(message[:length])
    assert [each["name"] for each in head["outputs"]] == ["b", "a"]
    assert head["outputs"][1]["data"] == [1, 2]
    assert message[length:] == b"\x01\0\0\0z"


class Two(TypedDict):
    label: list[str]
    score: Annotated[np.ndarray[Any, Any], Tensor("FP32", -1)]


def hook(text: list[str], count: int, request: Request, x: float = 1.0) -> Two:
    return {"label": text, "score": np.array([1.0, 2.0])}


def test_type_hints_define_tensors_of_inputs_and_outputs() -> None:
    found = signature(hook)
    assert [(each.name, str(each.tensor), each.required) for each in found.inputs] == [
        ("text", "BYTES[-1]", True),
        ("count", "INT64[1]", True),
        ("x", "FP64[1]", False),
    ]
    assert (found.request, found.named) == ("request", True)
    outputs = outputs_of(found.outputs, True, hook(["a", "b"], 1, Request()))
    assert {name: datatype_of(array) for name, array in outputs.items()} == {
        "label": "BYTES",
        "score": "FP32",
    }
    with pytest.raises(ValueError, match="instead of"):
        outputs_of(found.outputs, True, {"label": ["a"]})
    values = wire.values(found.inputs, {"text": texts(["ü"]), "count": np.array([3])})
    assert values == {"text": ["ü"], "count": 3}
    with pytest.raises(BadInput, match="text is not UTF-8"):
        wire.values(found.inputs, {"text": texts([b"\xff"]), "count": np.array([3])})
    with pytest.raises(BadInput, match="is missing"):
        wire.values(found.inputs, {"text": texts(["a"])})


def test_hook_without_type_hints_is_rejected() -> None:
    def bare(x) -> list[str]:  # type: ignore[no-untyped-def]
        return []

    with pytest.raises(TypeError, match="its parameter x needs a hint"):
        signature(bare)


def test_valid_paths_are_parsed_and_invalid_paths_are_rejected() -> None:
    assert find("POST", "/v2/models/a%2Fb/versions/1/infer") == Path("infer", "a/b", "1")
    assert find("HEAD", "/v2/models/m/ready") == Path("ready", "m", None)
    with pytest.raises(NotFound):
        find("GET", "/v2/models/m/other")
    with pytest.raises(Problem, match="takes POST") as caught:
        find("GET", "/v2/models/m/infer")
    assert caught.value.status == 405
