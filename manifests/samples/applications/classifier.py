"""A classifier with dynamic batching: three wide layers of made-up weights, whose answers mean nothing.

Its cost is that of a real one of its size: alone, a row reads all weights; in a batch, rows share that.
`importPath: classifier:app` with `args: {batch: {maxSize: 32, wait: 5ms}}`.
"""

from itertools import pairwise
from typing import Annotated, TypedDict

import numpy as np

from daybreak_runtime.models import Model, Tensor, application

FEATURES, CLASSES, LAYERS = 64, 10, 3


class Result(TypedDict):
    """The class of each row, and how certain it is."""

    label: Annotated[np.ndarray, Tensor("INT64", -1)]
    certainty: Annotated[np.ndarray, Tensor("FP32", -1)]


class Classifier(Model):
    """`settings.width`: numbers in each layer, 1024 unless it is set."""

    def load(self) -> None:
        """Make the weights."""
        dice, width = np.random.default_rng(0), int(self.settings.get("width", 1024))
        sizes = [FEATURES, *[width] * LAYERS, CLASSES]
        self.weights = [
            dice.standard_normal((a, b), dtype=np.float32) / np.float32(a**0.5) for a, b in pairwise(sizes)
        ]

    def predict(self, x: Annotated[np.ndarray, Tensor("FP32", -1, FEATURES)]) -> Result:
        """Rows of features, to a class for each."""
        for each in self.weights[:-1]:
            x = np.maximum(x @ each, 0)
        scores = x @ self.weights[-1]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        return {"label": scores.argmax(axis=1), "certainty": scores.max(axis=1)}


app = application(Classifier)
