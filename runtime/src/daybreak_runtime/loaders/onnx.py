"""Model in an ONNX file, run by ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np

from daybreak_runtime.loaders.extras import needed, path_of
from daybreak_runtime.models.model import Model
from daybreak_runtime.v2.hints import Field, Signature
from daybreak_runtime.v2.tensor import Tensor

_TYPES = {
    "bool": "BOOL",
    "double": "FP64",
    "float": "FP32",
    "float16": "FP16",
    "string": "BYTES",
    **{f"{kind}int{bits}": f"{kind.upper()}INT{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)},
}


class Onnx(Model):
    """Model with the inputs and outputs of the file: names, datatypes and shapes.

    A dimension without a number may have any size.

    `source` is the file, or a folder with a `model.onnx`. `settings.providers` are ONNX Runtime's execution
    providers.
    """

    platform = "onnx_onnxruntime"

    def load(self) -> None:
        """Open a session."""
        runtime = needed("onnxruntime", "onnx")
        path = Path(path_of(self.source))
        providers = list(self.settings.get("providers", ["CPUExecutionProvider"]))
        self._session = runtime.InferenceSession(
            str(path / "model.onnx" if path.is_dir() else path), providers=providers
        )

    def inference(self) -> Signature:
        """Return the signature of the file. Raises TypeError for a type that the protocol does not have."""
        inputs = tuple(_field(each) for each in self._session.get_inputs())
        return Signature(inputs, tuple(_field(each) for each in self._session.get_outputs()), named=True)

    def predict(self, **inputs: Any) -> dict[str, Any]:
        """Run the model."""
        given = {name: _strings(value) for name, value in inputs.items()}
        names = [each.name for each in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, given), strict=True))


def _field(report: Any) -> Field:
    kind = report.type.removeprefix("tensor(").removesuffix(")")
    if kind not in _TYPES:
        raise TypeError(f"{report.name} is {report.type}, which the Open Inference Protocol does not have")
    shape = [size if isinstance(size, int) and size >= 0 else -1 for size in report.shape]
    return Field(report.name, Tensor(_TYPES[kind], *shape))


def _strings(value: Any) -> Any:
    if value.dtype != np.object_:
        return value
    return np.array([each.decode() for each in value.reshape(-1)], dtype=object).reshape(value.shape)
