"""Part of the output in Parquet. A column that Parquet or Arrow cannot store is written as JSON text."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from daybreak_runtime.jobs.json_text import replace_in_value, replace_surrogates

if TYPE_CHECKING:
    import pyarrow

DEPTH_LIMIT = 16
"""Maximum nesting of a column's type. Arrow writes deeper columns and cannot read them back."""


def write(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the rows, with the union of their columns, as one Parquet file."""
    import pyarrow
    from pyarrow import parquet

    names = list(dict.fromkeys(name for each in rows for name in each))
    columns = {name: [each.get(name) for each in rows] for name in names}
    types = {
        "row_id": pyarrow.int64(),
        "error": pyarrow.string(),
        "prompt_tokens": pyarrow.int64(),
        "completion_tokens": pyarrow.int64(),
        "finish_reason": pyarrow.string(),
    }
    vectors = any(isinstance(value, list) for value in columns["response"])
    numbers = any(isinstance(value, float) for value in columns["response"])
    alone = pyarrow.float32() if numbers else pyarrow.string()
    types["response"] = pyarrow.list_(pyarrow.float32()) if vectors else alone
    arrays = {replace_surrogates(name): _array(values, types.get(name)) for name, values in columns.items()}
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(arrays), sink)
    return bytes(sink.getvalue().to_pybytes())


def _array(values: list[Any], kind: "pyarrow.DataType | None") -> "pyarrow.Array":
    import pyarrow

    try:
        try:
            found = pyarrow.array(values, kind)
        except UnicodeEncodeError:
            values = [replace_in_value(value) for value in values]
            found = pyarrow.array(values, kind)
        if _can_hold(found.type):
            return found
    except (pyarrow.ArrowException, OverflowError):
        # Values of several types under one name, or an integer of more than 64 bits.
        pass
    return pyarrow.array([None if value is None else _text(value) for value in values], pyarrow.string())


def _text(value: Any) -> str:
    return replace_surrogates(json.dumps(value, ensure_ascii=False, default=str))


def _can_hold(kind: "pyarrow.DataType", depth: int = 0) -> bool:
    """Return True if a Parquet file can have a column of the type, and Arrow can read it back."""
    import pyarrow

    if not pyarrow.types.is_nested(kind):
        return True
    parts = [kind.field(number).type for number in range(kind.num_fields)]
    return bool(parts) and depth < DEPTH_LIMIT and all(_can_hold(part, depth + 1) for part in parts)
