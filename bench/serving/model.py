"""Model of `bench.serving.v2`, identical in both servers: a linear classifier like that of sklearn.

As a program, this module is KServe's server of the model: python -m bench.serving.model PORT, with KServe's
Python.
"""

import logging
import sys
from typing import Any

import numpy as np

FEATURES, CLASSES = 10, 3
WEIGHTS = np.random.default_rng(0).standard_normal((FEATURES, CLASSES))


def predict(x: Any) -> Any:
    """Return the class of each row."""
    return (x @ WEIGHTS).argmax(axis=1)


def main(port: int) -> None:
    """Serve the model with KServe, as its documentation shows."""
    import kserve

    class Linear(kserve.Model):  # type: ignore[misc]  # installed only in a dedicated environment
        def __init__(self) -> None:
            super().__init__("linear")
            self.ready = True

        def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            found = predict(payload.inputs[0].as_numpy())
            output = kserve.InferOutput(
                name="output", shape=list(found.shape), datatype="INT64", data=found.tolist()
            )
            return kserve.InferResponse(
                model_name="linear", infer_outputs=[output], response_id=payload.id or ""
            )

    server = kserve.ModelServer(http_port=port, enable_grpc=False, workers=1, enable_latency_logging=False)
    # Daybreak's replicas do not log each request either.
    for name in ("uvicorn.access", "kserve.trace"):
        logging.getLogger(name).disabled = True
    server.start([Linear()])


if __name__ == "__main__":
    main(int(sys.argv[1]))
