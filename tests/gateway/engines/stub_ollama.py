"""Stub of Ollama: its server and the commands that ModelServers use, with an empty library behind them.

`serve` keeps models in a directory, as the real server does; the other commands are clients of OLLAMA_HOST.
Any model that `pull` requests exists.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

GGUF = b"GGUF"
"""First bytes of a GGUF file."""


def qualified(name: str) -> str:
    """Return a model's name with its tag."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


class Server:
    """Ollama's server, with the origin of each model in a file."""

    def __init__(self) -> None:
        home = Path(os.environ["HOME"]) / ".ollama" / "models"
        self._file = Path(os.environ.get("OLLAMA_MODELS", home)) / "models.json"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._models: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def run(self) -> None:
        """Serve at OLLAMA_HOST until SIGTERM."""
        app = web.Application()
        app.router.add_get("/", self._root)
        app.router.add_get("/api/tags", self._tags)
        for path, handler in (
            ("create", self._create), ("pull", self._pull), ("copy", self._copy), ("show", self._show),
            ("chat", self._chat),
        ):  # fmt: skip
            app.router.add_post(f"/api/{path}", handler)
        host, _, port = os.environ.get("OLLAMA_HOST", "127.0.0.1:11434").rpartition(":")
        web.run_app(app, host=host, port=int(port), print=None)

    def _add(self, name: str, origin: str) -> web.Response:
        self._models[qualified(name)] = origin
        self._file.write_text(json.dumps(self._models))
        return web.json_response({"status": "success"})

    def _find(self, name: str) -> str:
        if (found := self._models.get(qualified(name))) is None:
            raise web.HTTPNotFound(text=json.dumps({"error": f"model '{name}' not found"}))
        return found

    async def _root(self, _: web.Request) -> web.Response:
        return web.Response(text="Ollama is running")

    async def _tags(self, _: web.Request) -> web.Response:
        cards = [{"name": name, "model": name, "size": 1, "digest": "0" * 64} for name in self._models]
        return web.json_response({"models": cards})

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        return self._add(body["model"], body["from"])

    async def _pull(self, request: web.Request) -> web.Response:
        body = await request.json()
        return self._add(body["model"], f"pull of {body['model']}")

    async def _copy(self, request: web.Request) -> web.Response:
        body = await request.json()
        return self._add(body["destination"], self._find(body["source"]))

    async def _show(self, request: web.Request) -> web.Response:
        body = await request.json()
        return web.json_response({"modelfile": f"FROM {self._find(body['model'])}"})

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        message = {"role": "assistant", "content": self._find(body["model"])}
        answer = {"model": body["model"], "created_at": "2026-01-01T00:00:00Z", "message": message}
        # A stream is one line of JSON per part; the stub has one part.
        text = json.dumps(answer | {"done": True, "done_reason": "stop"}) + "\n"
        kind = "application/x-ndjson" if body.get("stream", True) else "application/json"
        return web.Response(text=text, content_type=kind)


def ask(path: str, body: dict[str, Any] | None = None) -> None:
    """Send a request to the server at OLLAMA_HOST. End with status 1 and its error if it fails."""
    url = f"http://{os.environ.get('OLLAMA_HOST', '127.0.0.1:11434')}/api/{path}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10):
            pass
    except urllib.error.HTTPError as error:
        sys.exit(f"Error: {error.read().decode()}")
    except OSError as error:
        sys.exit(f"Error: {error}")


def origin(modelfile: Path) -> str:
    """Return the file that a Modelfile names. End with status 1 if it is no GGUF file."""
    word, _, name = modelfile.read_text().strip().partition(" ")
    if word != "FROM" or not Path(name).is_file() or Path(name).read_bytes()[: len(GGUF)] != GGUF:
        sys.exit(f"Error: {name} is no GGUF file")
    return name


def main(words: Sequence[str]) -> None:
    """Run one of Ollama's commands."""
    made = argparse.ArgumentParser(prog="ollama", allow_abbrev=False)
    commands = made.add_subparsers(dest="command", required=True)
    commands.add_parser("serve")
    commands.add_parser("list")
    create = commands.add_parser("create")
    create.add_argument("model")
    create.add_argument("-f", "--file", type=Path, required=True)
    for name in ("pull", "show"):
        commands.add_parser(name).add_argument("model")
    copy = commands.add_parser("cp")
    copy.add_argument("source")
    copy.add_argument("destination")
    read = made.parse_args(words)
    match read.command:
        case "serve":
            Server().run()
        case "list":
            ask("tags")
        case "create":
            ask("create", {"model": read.model, "from": origin(read.file)})
        case "pull" | "show" as command:
            ask(command, {"model": read.model})
        case "cp":
            ask("copy", {"source": read.source, "destination": read.destination})
