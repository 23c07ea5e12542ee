"""Separate Ray with applications by import path, run by Ray's Python; it ends with its standard input.

python -m bench.serving.host PORT FOLDER APPLICATIONS

APPLICATIONS is JSON: {"NAME": {"importPath": "module.attribute", "args": {...}}}.
"""

import json
import sys

import ray
from ray import serve
from ray._common.utils import import_attr
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary as build


def main(port: int, folder: str, applications: dict[str, dict[str, object]]) -> None:
    """Start the applications, print that they are ready, and wait."""
    ray.init(
        num_cpus=32,
        object_store_memory=100_000_000,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=folder,
    )
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    # One after another, because all of their processes at once are too much for a small machine.
    for name, each in applications.items():
        application = build(import_attr(str(each["importPath"])), each.get("args", {}))
        serve.run(application, name=name, route_prefix=f"/{name}")
    print("READY", flush=True)
    sys.stdin.read()
    ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
