"""KServe's Python server with a linear model: the output `y` is the sum of each row of the input `x`.

python server.py --model_name=NAME --http_port=PORT --enable_grpc=false
"""

import argparse
from typing import Any
from uuid import uuid4

import numpy as np
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer, logging, model_server


class Sum(Model):  # type: ignore[misc]  # KServe is only in the image
    """Model whose output `y` is the sum of each row of the input `x`."""

    def __init__(self, name: str) -> None:
        """Create the model, which is ready at once."""
        super().__init__(name)
        self.ready = True

    async def predict(self, payload: InferRequest, headers: Any = None, response_headers: Any = None) -> Any:
        """Return one value for each row."""
        rows = payload.inputs[0].as_numpy()
        output = InferOutput(name="y", shape=[len(rows)], datatype="FP32")
        output.set_data_from_numpy(rows.sum(axis=1).astype(np.float32), binary_data=False)
        return InferResponse(payload.id or str(uuid4()), self.name, [output])


if __name__ == "__main__":
    options, _ = argparse.ArgumentParser(parents=[model_server.parser]).parse_known_args()
    logging.configure_logging()
    ModelServer().start([Sum(options.model_name)])
