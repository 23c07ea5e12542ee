"""`python -m daybreak_runtime.batch` with the simulated engine, for `bench.ray.batch_rows`.

python -m bench.ray.batch_rows_driver FOLDER

A Ray of this process takes the place of the cluster; its files are in the folder. The order is in the
environment, as in a pod.
"""

import sys

import ray

from bench.ray.batch_rows_engine import StandIn
from daybreak_runtime.batch import __main__ as program
from daybreak_runtime.batch import stage_classes


def main(folder: str) -> int:
    """Run the batch, and return its exit status."""
    ray.init(
        num_cpus=4,
        resources={"model": 1, "prepare": 1000, "daybreak-head": 1},
        object_store_memory=200_000_000,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=folder,
    )
    vars(stage_classes)["JsonEngine"] = StandIn
    return program.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
