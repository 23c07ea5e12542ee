"""Loaders without the libraries that they need."""

import re
import sys
import tomllib
from collections.abc import Sequence

import pytest

from cluster import paths
from daybreak_runtime import loaders
from daybreak_runtime.models.model import Model

PROJECT = paths.REPOSITORY / "runtime" / "pyproject.toml"


@pytest.mark.parametrize(
    ("loader", "gone", "extra"),
    [
        ("HuggingFace", ["transformers", "transformers.pipelines"], "hugging-face"),
        ("MLflow", ["mlflow", "mlflow.pyfunc"], "mlflow"),
        ("Onnx", ["onnxruntime"], "onnx"),
        ("ScikitLearn", ["sklearn"], "scikit-learn"),
    ],
)
def test_loader_names_required_extra_if_library_is_missing(
    monkeypatch: pytest.MonkeyPatch, loader: str, gone: Sequence[str], extra: str
) -> None:
    for name in gone:
        # As the import system has a module that is not there.
        monkeypatch.setitem(sys.modules, name, None)
    model: Model = getattr(loaders, loader)()
    model.source, model.settings = "/somewhere", {}
    with pytest.raises(ImportError, match=re.escape(f"pip install daybreak-runtime[{extra}]")) as found:
        model.load()
    assert gone[0] in str(found.value)
    assert extra in tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
