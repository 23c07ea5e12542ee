"""A linear model that says why: `/explain` gives how much each feature added. `importPath: explained:app`."""

from typing import Annotated

import numpy as np

from daybreak_runtime.models import Model, Tensor, application

WEIGHTS = np.array([2.0, -1.0, 0.5], dtype=np.float32)
USUAL = np.array([1.0, 1.0, 1.0], dtype=np.float32)
"""Weights and usual features, made up."""
Rows = Annotated[np.ndarray, Tensor("FP32", -1, 3)]


class Scores(Model):
    """A score for each row of three features."""

    def predict(self, x: Rows) -> Annotated[np.ndarray, Tensor("FP32", -1)]:
        """The scores."""
        return x @ WEIGHTS

    def explain(self, x: Rows) -> Rows:
        """What each feature adds to the score of the usual ones: for a linear model, its Shapley values."""
        return (x - USUAL) * WEIGHTS


app = application(Scores)
