"""A linear model with explanations: `/explain` returns the contribution of each feature.

`importPath: explained:app`.
"""

from typing import Annotated

import numpy as np

from daybreak_runtime.models import Model, Tensor, application

WEIGHTS = np.array([2.0, -1.0, 0.5], dtype=np.float32)
USUAL = np.array([1.0, 1.0, 1.0], dtype=np.float32)
"""Weights and typical features, both synthetic."""
Rows = Annotated[np.ndarray, Tensor("FP32", -1, 3)]


class Scores(Model):
    """Model with a score for each row of three features."""

    def predict(self, x: Rows) -> Annotated[np.ndarray, Tensor("FP32", -1)]:
        """Return the scores."""
        return x @ WEIGHTS

    def explain(self, x: Rows) -> Rows:
        """Return what each feature adds to the typical score: the Shapley values of a linear model."""
        return (x - USUAL) * WEIGHTS


app = application(Scores)
