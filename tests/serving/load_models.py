"""Make small models of scikit-learn, ONNX and MLflow, and call them through the loaders: one line of JSON.

python load_models.py FOLDER, with the packages of requirements/loaders.txt and of the Ray image.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import joblib
import mlflow
import numpy as np
import onnx
from onnx import TensorProto, helper
from sklearn.linear_model import LogisticRegression

from daybreak_runtime.loaders import MLflow, Onnx, ScikitLearn
from daybreak_runtime.models import Model, Request
from daybreak_runtime.models.args import Args
from daybreak_runtime.models.server import versions_of

ROWS = np.array([[0.0, 0.0], [1.0, 1.0]])


def make(folder: Path) -> dict[str, tuple[type[Model], str, dict[str, Any]]]:
    """Return loader, source and inputs by name."""
    known = LogisticRegression().fit(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), ["no", "no", "yes", "yes"])
    joblib.dump(known, folder / "model.joblib")

    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 2])
    twice = helper.make_tensor_value_info("twice", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph([helper.make_node("Add", ["rows", "rows"], ["twice"])], "g", [rows], [twice])
    written = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(written, folder / "model.onnx")

    class Sum(mlflow.pyfunc.PythonModel):  # type: ignore[misc]  # not in this environment
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            return model_input["a"] + model_input["b"]

    from mlflow.models import ModelSignature
    from mlflow.types.schema import ColSpec, Schema

    columns = Schema([ColSpec("double", "a"), ColSpec("double", "b")])
    mlflow.pyfunc.save_model(
        str(folder / "mlflow"), python_model=Sum(), signature=ModelSignature(columns), pip_requirements=[]
    )
    return {
        "sklearn": (ScikitLearn, str(folder), {"x": ROWS}),
        "onnx": (Onnx, str(folder), {"rows": ROWS.astype(np.float32)}),
        "mlflow": (MLflow, f"file://{folder}/mlflow", {"a": ROWS[:, 0], "b": ROWS[:, 1]}),
    }


async def main(folder: Path) -> None:
    """Ask each."""
    found = {}
    for name, (kind, source, inputs) in make(folder).items():
        versions = versions_of(name, kind, Args(source=source))
        await versions.change({"1"})
        loaded = versions.get(None)
        given = await loaded.infer(inputs, Request())
        found[name] = {
            "inputs": [[each.name, str(each.tensor)] for each in loaded.inference.inputs],
            "outputs": {
                key: [
                    each.decode() if isinstance(each, bytes) else each for each in value.reshape(-1).tolist()
                ]
                for key, value in given.items()
            },
        }
    print(json.dumps(found))


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
