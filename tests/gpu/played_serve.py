"""Ray Serve, played: what the dashboards of all Ray clusters would answer KubeRay, and models the operator.

On fake nodes nothing runs in a pod, so no server would answer, and KubeRay would wait for ever. This is an
HTTP proxy that KubeRay uses. It keeps the configuration that KubeRay hands to each head. It reports each
deployment in it as healthy as soon as its model has a running worker pod, if it needs one; and the
application as running when all of them are.

The operator's questions to models come to the same place, where a test has it ask there
(`tests/api/playing/operator.py`): what the models of a Ray cluster answer is the test's to say.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from daybreak.api.common import names

_APPLICATIONS = "/api/serve/applications/"
_HEALTH = "/-/healthz"
_MODELS, _COMPLETIONS = "/v1/models", "/v1/completions"
COMPLETION = '{"choices": [{"text": "!"}]}'
"""A completion."""

FAILURE = "played_failure"
"""An application with this argument cannot be built, for which Serve says this."""

RunningGroups = Callable[[str], set[str]]
"""Names of the worker groups that have a pod that runs, in the Ray cluster of a head Service's address."""


Says = Callable[[str], tuple[int, str]]
"""Status and body of a model's answer, by the address of the Ray head that receives the probe."""


class PlayedServe:
    """Every Ray dashboard and Serve proxy that KubeRay asks.

    Attributes:
        running: Which worker groups run; None: all.
        says: Answer of a model to a completion request; None: a token.
    """

    def __init__(self) -> None:
        self.running: RunningGroups | None = None
        self.says: Says | None = None
        self._configurations: dict[str, Any] = {}
        played = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address = urlsplit(self.path)
                if address.path == _HEALTH:
                    self._answer(b"success")
                elif address.path == _APPLICATIONS:
                    self._answer(json.dumps(played._message(address.netloc)).encode())
                elif address.path.endswith(_MODELS):
                    self._answer(json.dumps({"data": [{"id": each} for each in played._models()]}).encode())
                else:
                    self.send_error(404)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                _, head, path = urlsplit(self.path).path.split("/", 2)
                if f"/{path}" != _COMPLETIONS:
                    self.send_error(404)
                    return
                status, body = played.says(head) if played.says is not None else (200, COMPLETION)
                self._answer(body.encode(), status)

            def do_PUT(self) -> None:
                address = urlsplit(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if address.path != _APPLICATIONS:
                    self.send_error(404)
                    return
                played._configurations[address.netloc] = json.loads(body)
                self._answer(b"")

            def _answer(self, body: bytes, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing to say."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="played-serve")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def proxy(self) -> str:
        """Return the address, for `HTTP_PROXY`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def _models(self) -> list[str]:
        """Return the names of the models of every configuration."""
        return [
            config["model_loading_config"]["model_id"]
            for configuration in list(self._configurations.values())
            for application in configuration.get("applications", [])
            for config in application.get("args", {}).get("llm_configs", [])
        ]

    def _message(self, head: str) -> dict[str, Any]:
        """Return the response of Serve's REST API at a head for the applied configuration."""
        configuration = self._configurations.get(head) or {}
        running = self.running(head) if self.running is not None else None
        applications = {}
        for application in configuration.get("applications", []):
            configs = application.get("args", {}).get("llm_configs", [])
            models = [config["model_loading_config"]["model_id"] for config in configs]
            groups = {names.serve_deployment(model): names.worker_group(model) for model in models}
            deployments = {}
            for deployment in application["deployments"]:
                fewest = deployment.get("autoscaling_config", {}).get("min_replicas", 0)
                group = groups.get(deployment["name"]) or _group(deployment)
                up = running is None or not group or not fewest or group in running
                status = "HEALTHY" if up else "UPDATING"
                deployments[deployment["name"]] = {
                    "name": deployment["name"],
                    "status": status,
                    "message": "",
                }
            settled = all(each["status"] == "HEALTHY" for each in deployments.values())
            failure = application.get("args", {}).get(FAILURE, "")
            applications[application["name"]] = {
                "name": application["name"],
                "status": "DEPLOY_FAILED" if failure else "RUNNING" if settled else "DEPLOYING",
                "message": failure,
                "deployments": deployments,
            }
        return {"applications": applications}


def _group(deployment: dict[str, Any]) -> str:
    """Return the dedicated worker group that a deployment requests by its resource; empty: none."""
    resources = deployment.get("ray_actor_options", {}).get("resources", {})
    prefix = names.group_resource("")
    return next((each.removeprefix(prefix) for each in resources if each.startswith(prefix)), "")
