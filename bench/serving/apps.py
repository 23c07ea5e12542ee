"""Applications of bench.serving.v2, run by Ray's Python: each replica also listens on a port of its own."""

import os
from typing import Annotated

import numpy as np
from classifier import Classifier  # manifests/samples/applications

from bench.serving.model import FEATURES, predict
from daybreak_runtime.models import Model, Tensor, application


class Linear(Model):
    """The model that KServe's server has too."""

    def predict(
        self, x: Annotated[np.ndarray, Tensor("FP64", -1, FEATURES)]
    ) -> Annotated[np.ndarray, Tensor("INT64", -1)]:
        """The class of each row."""
        return predict(x)  # type: ignore[no-any-return]


def _port(name: str) -> dict[str, object]:
    return {"runtime_env": {"env_vars": {"DAYBREAK_HTTP_PORT": os.environ.get(name, "")}}}


linear = application(Linear, ray_actor_options=_port("BENCH_LINEAR_PORT"))
batched = application(Classifier, ray_actor_options=_port("BENCH_BATCHED_PORT"))
alone = application(Classifier, ray_actor_options=_port("BENCH_ALONE_PORT"))
