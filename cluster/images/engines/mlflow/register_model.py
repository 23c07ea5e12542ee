"""Log a model with MLflow and register it as version 1 of `words` at the tracking server.

The model counts the words of each text. MLFLOW_TRACKING_URI names the server.
"""

from typing import Any

import mlflow
import pandas as pd


class Words(mlflow.pyfunc.PythonModel):  # type: ignore[misc]  # MLflow is only in the image
    """Model that counts the words of each text."""

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> list[int]:
        """Return the number of words of each row's `text`."""
        return [len(text.split()) for text in model_input["text"]]


if __name__ == "__main__":
    example = pd.DataFrame({"text": ["two words"]})
    with mlflow.start_run():
        # No requirements: the server runs in the environment of the image.
        mlflow.pyfunc.log_model(
            name="words",
            python_model=Words(),
            registered_model_name="words",
            input_example=example,
            pip_requirements=[],
        )
