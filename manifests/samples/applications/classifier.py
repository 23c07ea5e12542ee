"""A classifier with dynamic batching: three wide layers of random weights, so the answers mean nothing.

The cost is that of a real classifier of this size: a single row reads all weights, and the rows of a batch
share this read. `importPath: classifier:app` with `args: {batch: {maxSize: 32, wait: 5ms}}`.
"""

from itertools import pairwise
from typing import Annotated, TypedDict

import numpy as np

from daybreak_runtime.models import Model, Tensor, application

FEATURES, CLASSES, LAYERS = 64, 10, 3


class Result(TypedDict):
    """Class and certainty of each row."""

    label: Annotated[np.ndarray, Tensor("INT64", -1)]
    certainty: Annotated[np.ndarray, Tensor("FP32", -1)]


class Classifier(Model):
    """Classifier whose layers have `settings.width` numbers. Defaults to 1024."""

    def load(self) -> None:
        """Create the weights."""
        dice, width = np.random.default_rng(0), int(self.settings.get("width", 1024))
        sizes = [FEATURES, *[width] * LAYERS, CLASSES]
        self.weights = [
            dice.standard_normal((a, b), dtype=np.float32) / np.float32(a**0.5) for a, b in pairwise(sizes)
        ]

    def predict(self, x: Annotated[np.ndarray, Tensor("FP32", -1, FEATURES)]) -> Result:
        """Return a class for each row of features."""
        for each in self.weights[:-1]:
            x = np.maximum(x @ each, 0)
        scores = x @ self.weights[-1]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        return {"label": scores.argmax(axis=1), "certainty": scores.max(axis=1)}


app = application(Classifier)
