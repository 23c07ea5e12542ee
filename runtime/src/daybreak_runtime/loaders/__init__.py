"""Ready-made models that are loaded: `app = application(HuggingFace)`, with `source` in the arguments.

Each imports its library when it loads, and reports which extra of this package provides it. Names are
resolved on use, so that none is imported for another.
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "HuggingFace": "hugging_face",
    "MLflow": "mlflow",
    "Onnx": "onnx",
    "ScikitLearn": "scikit_learn",
}
__all__ = ["HuggingFace", "MLflow", "Onnx", "ScikitLearn"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
