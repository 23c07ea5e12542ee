"""Datatypes and shapes of the Open Inference Protocol V2, and arrays of them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from daybreak_runtime.v2.problem import BadInput

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{
        f"{kind.upper()}{bits}": np.dtype(f"{kind}{bits}")
        for kind in ("uint", "int")
        for bits in (8, 16, 32, 64)
    },
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BYTES": np.dtype(object),
}
"""Types of numpy by datatype. BYTES are objects of `bytes`; BF16 has no type in numpy, and is rejected."""

Array = np.ndarray[Any, np.dtype[Any]]


class Tensor:
    """Type of a tensor: `Annotated[np.ndarray, Tensor("FP32", -1, 4)]` is any number of rows of four.

    Args:
        datatype: A key of `DTYPES`.
        shape: Sizes; -1 is any. A first size of -1 is the batch.

    Raises:
        ValueError: There is no such datatype, or a size is less than -1.
    """

    def __init__(self, datatype: str, *shape: int) -> None:
        if datatype not in DTYPES:
            raise ValueError(f"{datatype} is none of the datatypes {', '.join(DTYPES)}")
        if any(size < -1 for size in shape):
            raise ValueError(f"a size of {list(shape)} is less than -1")
        self.datatype = datatype
        self.shape = shape

    def __repr__(self) -> str:
        return f"{self.datatype}{list(self.shape)}"

    def fits(self, datatype: str, shape: Sequence[int]) -> bool:
        """Return True if a tensor of this datatype and shape fits."""
        return (
            datatype == self.datatype
            and len(shape) == len(self.shape)
            and all(desired in (-1, size) for desired, size in zip(self.shape, shape, strict=True))
        )


def datatype_of(array: Array) -> str:
    """Return the datatype of an array: text and bytes are BYTES. Raises ValueError if it has none."""
    if array.dtype.kind in "OSU":
        return "BYTES"
    for name, dtype in DTYPES.items():
        if dtype == array.dtype:
            return name
    raise ValueError(f"an array of {array.dtype} has no datatype of the Open Inference Protocol")


def from_json(name: str, datatype: str, shape: Sequence[int], data: Any) -> Array:
    """Return an array from the JSON form, flat or nested. Raises BadInput for other data."""
    if datatype == "BYTES":
        return _texts(name, shape, data)
    try:
        found = np.asarray(data)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"input {name}: its data are no tensor: rows differ in length") from error
    dtype = DTYPES[datatype]
    if found.size and found.dtype.kind not in {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}[dtype.kind]:
        raise BadInput(f"input {name}: its data are not {datatype}")
    if found.size and dtype.kind in "iu":
        least, most = int(found.min()), int(found.max())
        if least < np.iinfo(dtype).min or most > np.iinfo(dtype).max:
            raise BadInput(f"input {name}: {least} to {most} is more than {datatype} holds")
    with np.errstate(over="ignore"):
        return _shaped(name, found.astype(dtype), shape, found.ndim > 1)


def from_bytes(name: str, datatype: str, shape: Sequence[int], data: memoryview) -> Array:
    """Return an array from the binary form: little-endian, row by row. Raises BadInput."""
    count = math.prod(shape)
    if datatype == "BYTES":
        return _shaped(name, _elements(name, data), shape, False)
    dtype = DTYPES[datatype].newbyteorder("<")
    if len(data) != count * dtype.itemsize:
        raise BadInput(
            f"input {name}: {list(shape)} of {datatype} is {count * dtype.itemsize} bytes, not {len(data)}"
        )
    # A copy, which the model may modify, as with data from JSON.
    return _shaped(name, np.frombuffer(bytearray(data), dtype), shape, False)


def to_json(array: Array) -> list[Any]:
    """Return the JSON form, flat. Raises UnicodeDecodeError if BYTES are not UTF-8."""
    if array.dtype.kind in "OSU":
        return [each.decode() if isinstance(each, bytes) else str(each) for each in array.reshape(-1)]
    found: list[Any] = array.reshape(-1).tolist()
    return found


def to_bytes(array: Array) -> bytes:
    """Return the binary form."""
    if array.dtype.kind not in "OSU":
        return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
    parts = []
    for each in array.reshape(-1):
        written = each if isinstance(each, bytes) else str(each).encode()
        parts += [len(written).to_bytes(4, "little"), written]
    return b"".join(parts)


def texts(values: Sequence[bytes | str], shape: Sequence[int] | None = None) -> Array:
    """Return texts as an array of BYTES."""
    found = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        found[place] = value.encode() if isinstance(value, str) else value
    return found if shape is None else found.reshape(shape)


def _texts(name: str, shape: Sequence[int], data: Any) -> Array:
    flat: list[Any] = data if isinstance(data, list) else [data]
    while flat and isinstance(flat[0], list):
        if any(not isinstance(each, list) or len(each) != len(flat[0]) for each in flat):
            raise BadInput(f"input {name}: its data are no tensor: rows differ in length")
        flat = [each for row in flat for each in row]
    if any(not isinstance(each, str) for each in flat):
        raise BadInput(f"input {name}: its data are not BYTES: in JSON each is a text")
    return _shaped(name, texts(flat), shape, False)


def _elements(name: str, data: memoryview) -> Array:
    found: list[bytes] = []
    place = 0
    while place < len(data):
        length = int.from_bytes(data[place : place + 4], "little")
        if place + 4 + length > len(data):
            raise BadInput(f"input {name}: its last element says {length} bytes, and there are fewer")
        found.append(bytes(data[place + 4 : place + 4 + length]))
        place += 4 + length
    return texts(found)


def _shaped(name: str, array: Array, shape: Sequence[int], exactly: bool) -> Array:
    if array.size != math.prod(shape) or (exactly and array.shape != tuple(shape)):
        has = list(array.shape) if exactly else f"{array.size} elements"
        raise BadInput(f"input {name}: its shape is {list(shape)}, and its data are {has}")
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"input {name}: there is no array of the shape {list(shape)}") from error
