"""Ports of Ray pods, with the names that KubeRay expects."""

SERVE = 8000
"""Port of Ray Serve's HTTP proxy for requests, on every pod with a replica."""
DIRECT = 8100
"""Port for requests to one replica, which bypass Serve's proxies: the replica's own HTTP port, on the worker
pod of its actor. It conflicts with none of Ray's ports: the lowest there is 10002."""
METRICS = 8080
"""Port of the pod's Prometheus metrics."""
DASHBOARD = 8265
"""Port of the head's dashboard and REST API, through which KubeRay sends Serve its configuration."""
FILL = 8200
"""Port of a Job's pod that fills a PVC, where the operator reads its progress."""
BATCH = 8300
"""Port of a batch's head and of a benchmark's pod, where the operator reads their progress."""
AGENT = 52365
"""Port of Ray's agent on every pod, which reports Ray's health there."""
GCS = 6379
"""Port of Ray's control store on the head."""
CLIENT = 10001
"""Port of Ray Client on the head."""

_EVERY_POD = {"metrics": METRICS, "serve": SERVE}
WORKER_PORTS = {**_EVERY_POD, "direct": DIRECT}
WORKER_PORTS_WITHOUT_DIRECT = _EVERY_POD
HEAD_PORTS = {"gcs-server": GCS, "dashboard": DASHBOARD, "client": CLIENT, **_EVERY_POD}
