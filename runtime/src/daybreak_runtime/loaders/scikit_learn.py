"""Model of scikit-learn, from a file of joblib or pickle."""

from pathlib import Path
from typing import Any

import numpy as np

from daybreak_runtime.loaders.extras import needed, path_of
from daybreak_runtime.models.model import Model
from daybreak_runtime.v2.hints import OUTPUT, Field, Signature
from daybreak_runtime.v2.problem import BadInput
from daybreak_runtime.v2.tensor import Tensor, datatype_of


class ScikitLearn(Model):
    """Model with rows `x` of features as input, and `output` for each row.

    `source` is a file, or a folder with one `model.joblib`, `model.pkl` or `model.pickle`. **Loading it runs
    its content**: use only files that you trust. `settings.method` is `predict` (the default),
    `predict_proba`, `decision_function` or `transform`.
    """

    platform = "sklearn_sklearn"

    def load(self) -> None:
        """Load the file."""
        needed("sklearn", "scikit-learn")
        self._model = needed("joblib", "scikit-learn").load(_file(Path(path_of(self.source))))
        method = str(self.settings.get("method", "predict"))
        if method not in ("predict", "predict_proba", "decision_function", "transform"):
            raise ValueError(f"settings.method: {method} is no method of a model")
        self._method = getattr(self._model, method)
        self._features = int(getattr(self._model, "n_features_in_", -1))
        given = np.asarray(self._method(np.zeros((1, max(self._features, 1)))))
        self._output = Tensor(datatype_of(given), -1, *given.shape[1:])

    def inference(self) -> Signature:
        """Return the signature: the trained number of features, and the output of a row of zeros."""
        fields = Field("x", Tensor("FP64", -1, self._features))
        return Signature((fields,), (Field(OUTPUT, self._output),))

    def predict(self, x: np.ndarray) -> Any:
        """Return the method's result."""
        try:
            return np.asarray(self._method(x))
        except ValueError as error:  # its message about NaN and the like concerns the input
            raise BadInput(str(error)[:500]) from error


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = [path / f"model.{end}" for end in ("joblib", "pkl", "pickle") if (path / f"model.{end}").exists()]
    if len(found) != 1:
        raise FileNotFoundError(
            f"{path} has {len(found)} files called model.joblib, model.pkl or model.pickle"
        )
    return found[0]
