"""Ray Serve, played: what the dashboards of all Ray clusters would answer KubeRay.

On fake nodes nothing runs in a pod, so nobody would answer, and KubeRay would wait for ever. This is an HTTP
proxy that KubeRay is told to use. It keeps the configuration that KubeRay hands to each head, and says of
each application in it that it runs, and of each deployment that it is healthy.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_APPLICATIONS = "/api/serve/applications/"
_HEALTH = "/-/healthz"


class PlayedServe:
    """Every Ray dashboard and Serve proxy that KubeRay asks."""

    def __init__(self) -> None:
        self._configurations: dict[str, Any] = {}
        configurations = self._configurations

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address = urlsplit(self.path)
                if address.path == _HEALTH:
                    self._answer(b"success")
                elif address.path == _APPLICATIONS:
                    said = _said(configurations.get(address.netloc) or {})
                    self._answer(json.dumps(said).encode())
                else:
                    self.send_error(404)

            def do_PUT(self) -> None:
                address = urlsplit(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if address.path != _APPLICATIONS:
                    self.send_error(404)
                    return
                configurations[address.netloc] = json.loads(body)
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
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
        """Its address, for `HTTP_PROXY`."""
        return f"http://127.0.0.1:{self._server.server_port}"


def _said(configuration: dict[str, Any]) -> dict[str, Any]:
    """What Serve's REST API says of a configuration that it has carried out."""
    return {
        "applications": {
            application["name"]: {
                "name": application["name"],
                "status": "RUNNING",
                "message": "",
                "deployments": {
                    deployment["name"]: {"name": deployment["name"], "status": "HEALTHY", "message": ""}
                    for deployment in application["deployments"]
                },
            }
            for application in configuration.get("applications", [])
        }
    }
