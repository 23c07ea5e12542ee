"""The ports of Ray pods, by the names that KubeRay looks for."""

SERVE = 8000
"""Requests: Ray Serve's HTTP proxy, on every pod that runs a replica."""
METRICS = 8080
"""Prometheus metrics of the pod."""
DASHBOARD = 8265
"""Dashboard and REST API of the head, through which KubeRay hands Serve its configuration."""
GCS = 6379
"""Ray's control store on the head."""
CLIENT = 10001
"""Ray Client on the head."""

WORKER_PORTS = {"metrics": METRICS, "serve": SERVE}
HEAD_PORTS = {"gcs-server": GCS, "dashboard": DASHBOARD, "client": CLIENT, **WORKER_PORTS}
