"""The ports of Ray pods, by the names that KubeRay looks for."""

SERVE = 8000
"""Requests: Ray Serve's HTTP proxy, on every pod that runs a replica."""
DIRECT = 8100
"""Requests to one replica past Serve's proxies: the HTTP port of the replica itself, on the worker pod that
its actor runs in. None of Ray's own ports, whose lowest is 10002 there."""
METRICS = 8080
"""Prometheus metrics of the pod."""
DASHBOARD = 8265
"""Dashboard and REST API of the head, through which KubeRay hands Serve its configuration."""
FILL = 8200
"""On the pod of a Job that fills a claim: how far it is, for the operator."""
BATCH = 8300
"""On the head of a batch, and in the pod of a benchmark: how far it is, for the operator."""
AGENT = 52365
"""Ray's agent on every pod, which says whether Ray is well there."""
GCS = 6379
"""Ray's control store on the head."""
CLIENT = 10001
"""Ray Client on the head."""

_EVERY_POD = {"metrics": METRICS, "serve": SERVE}
WORKER_PORTS = {**_EVERY_POD, "direct": DIRECT}
WORKER_PORTS_WITHOUT_DIRECT = _EVERY_POD
HEAD_PORTS = {"gcs-server": GCS, "dashboard": DASHBOARD, "client": CLIENT, **_EVERY_POD}
