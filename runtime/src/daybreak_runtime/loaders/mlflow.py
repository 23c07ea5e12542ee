"""Model of MLflow with its pyfunc flavor."""

import re
from typing import Any

import numpy as np

from daybreak_runtime.loaders.extras import needed
from daybreak_runtime.models.model import Model
from daybreak_runtime.v2.hints import OUTPUT, Field, Signature
from daybreak_runtime.v2.tensor import DTYPES, Tensor, datatype_of, texts

_COLUMNS = {
    "boolean": "BOOL",
    "integer": "INT32",
    "long": "INT64",
    "float": "FP32",
    "double": "FP64",
    "string": "BYTES",
}


class MLflow(Model):
    """Model with the inputs of its signature: one tensor per column, or named tensors; without one, rows `x`.

    `source` is a path, a URI that MLflow knows, or `mlflow://NAME/VERSION` of the registry in
    `MLFLOW_TRACKING_URI`. The result is `output`, or one output for each column of a table.
    """

    platform = "mlflow_pyfunc"

    def load(self) -> None:
        """Load the model, and run it once to learn its outputs."""
        pyfunc = needed("mlflow.pyfunc", "mlflow")
        source = re.sub(r"^mlflow://", "models:/", self.source).removeprefix("file://")
        self._model = pyfunc.load_model(source)
        schema = self._model.metadata.get_input_schema()
        self._table = schema is not None and not schema.is_tensor_spec()
        self._inputs = _inputs(schema)
        example = {each.name: _example(each.tensor) for each in self._inputs}
        given = self.predict(**example)
        self._outputs = tuple(
            Field(name, Tensor(datatype_of(value), -1, *value.shape[1:])) for name, value in given.items()
        )

    def inference(self) -> Signature:
        """Return the signature that `load` determined."""
        return Signature(self._inputs, self._outputs, named=True)

    def predict(self, **inputs: Any) -> dict[str, Any]:
        """Run the model on rows of all inputs, and return the same rows of the outputs."""
        values = {name: _text(value) for name, value in inputs.items()}
        if self._table:
            requested: Any = needed("pandas", "mlflow").DataFrame(values)
        else:
            requested = next(iter(values.values())) if len(values) == 1 else values
        given = self._model.predict(requested)
        if hasattr(given, "columns"):
            return {str(name): _array(given[name]) for name in given.columns}
        if isinstance(given, dict):
            return {str(name): _array(value) for name, value in given.items()}
        return {OUTPUT: _array(given)}


def _inputs(schema: Any) -> tuple[Field, ...]:
    if schema is None:
        return (Field("x", Tensor("FP64", -1, -1)),)
    if schema.is_tensor_spec():
        return tuple(
            Field(each.name or "x", Tensor(datatype_of(np.empty(0, each.type)), *each.shape))
            for each in schema.inputs
        )
    fields = []
    for each in schema.inputs:
        kind = getattr(each.type, "name", str(each.type)).lower()
        if kind not in _COLUMNS:
            raise TypeError(
                f"the column {each.name} is {kind}, which the Open Inference Protocol does not have"
            )
        fields.append(Field(each.name, Tensor(_COLUMNS[kind], -1)))
    return tuple(fields)


def _example(tensor: Tensor) -> Any:
    shape = [1 if size == -1 else size for size in tensor.shape]
    if tensor.datatype == "BYTES":
        return texts([""] * int(np.prod(shape)), shape)
    return np.zeros(shape, DTYPES[tensor.datatype])


def _array(value: Any) -> Any:
    found = np.asarray(value)
    return (
        texts([str(each) for each in found.reshape(-1)], found.shape) if found.dtype.kind in "OSU" else found
    )


def _text(value: Any) -> Any:
    if value.dtype != np.object_:
        return value
    return np.array([each.decode() for each in value.reshape(-1)], dtype=object).reshape(value.shape)
