"""Applications of `bench.serving.v2`, run by Ray's Python: each replica also listens on a direct port."""

import os
from typing import Annotated

import numpy as np
from classifier import Classifier  # manifests/samples/applications

from bench.serving.model import FEATURES, predict
from daybreak_runtime.models import Model, Tensor, application


class Linear(Model):
    """Model that KServe's server also has."""

    def predict(
        self, x: Annotated[np.ndarray, Tensor("FP64", -1, FEATURES)]
    ) -> Annotated[np.ndarray, Tensor("INT64", -1)]:
        """Return the class of each row."""
        return predict(x)  # type: ignore[no-any-return]


def _options(port: str, threads: int = 1) -> dict[str, object]:
    """Return the options of a replica: the name of the port's variable, and the number of CPU threads."""
    variables = {"DAYBREAK_HTTP_PORT": os.environ.get(port, ""), "OMP_NUM_THREADS": str(threads)}
    return {"runtime_env": {"env_vars": variables}}


linear = application(Linear, ray_actor_options=_options("BENCH_LINEAR_PORT"))
# As with `num_cpus` of the whole machine: Ray lets a replica compute with the same number of threads.
batched = application(
    Classifier, ray_actor_options=_options("BENCH_BATCHED_PORT", threads=os.cpu_count() or 1)
)
alone = application(Classifier, ray_actor_options=_options("BENCH_ALONE_PORT", threads=os.cpu_count() or 1))
