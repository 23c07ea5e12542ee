"""Stub of engines: `python stub_engine.py PROGRAM ARGUMENT...` parses and answers as the named program.

The stub accepts only options that the program documents, and ends with status 2 at any other. It answers by
the program's protocol and computes nothing: an answer contains the location of the model.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.gateway.engines import stub_ollama

HUB = re.compile(r"[\w.-]+/[\w.-]+")
METRICS = "# TYPE stub_requests counter\nstub_requests 1\n"


@dataclass(frozen=True)
class Settings:
    """Settings of a server of OpenAI's API, from its command line."""

    host: str
    port: int
    location: str
    """Location of the weights: a repository or a directory."""
    listed: str | None
    """Model that `/v1/models` lists, or None if there is no such path."""
    metrics: tuple[int, str] | None
    """Port and path of the metrics, or None if they are disabled."""


def parser(program: str, switches: str, values: str, numbers: str) -> argparse.ArgumentParser:
    """Return a strict parser of options that are written in full."""
    made = argparse.ArgumentParser(prog=program, allow_abbrev=False)
    for name in switches.split():
        made.add_argument(f"--{name}", action="store_true")
    for name in values.split():
        made.add_argument(f"--{name}")
    for name in numbers.split():
        made.add_argument(f"--{name}", type=int)
    return made


def weights(made: argparse.ArgumentParser, location: str | None) -> str:
    """Return the location of the weights. End if it is neither a repository nor a directory."""
    if location is None or not (Path(location).is_dir() or HUB.fullmatch(location)):
        made.error(f"no model at {location}")
    return location


def sglang(words: Sequence[str]) -> Settings:
    """Parse the command line of SGLang 0.5.23 (`sglang/srt/arg_groups/fields`)."""
    made = parser(
        "sglang.launch_server",
        "trust-remote-code enable-metrics disable-radix-cache enable-mixed-chunk skip-server-warmup",
        "model-path tokenizer-path served-model-name host revision dtype quantization kv-cache-dtype "
        "chat-template dist-init-addr log-level mem-fraction-static tool-call-parser reasoning-parser",
        "port tp-size pp-size nnodes node-rank context-length max-running-requests chunked-prefill-size",
    )
    read = made.parse_args(words)
    location = weights(made, read.model_path)
    metrics = (read.port, "/metrics") if read.enable_metrics else None
    return Settings(
        read.host or "127.0.0.1", read.port or 30000, location, read.served_model_name or location, metrics
    )


def tgi(words: Sequence[str]) -> Settings:
    """Parse the command line of TGI's launcher (`launcher/src/main.rs`)."""
    made = parser(
        "text-generation-launcher",
        "trust-remote-code disable-custom-kernels json-output",
        "model-id revision hostname quantize dtype sharded huggingface-hub-cache cuda-memory-fraction",
        "port num-shard max-concurrent-requests max-input-tokens max-total-tokens max-batch-prefill-tokens "
        "prometheus-port",
    )
    read = made.parse_args(words)
    if not os.access(os.environ["HF_HOME"], os.W_OK):
        made.error("HF_HOME is not writable")
    location = weights(made, read.model_id)
    port = read.port or 3000
    # clap reads the variable as well, which Kubernetes sets to the pod's name.
    host = read.hostname or os.environ.get("HOSTNAME", "0.0.0.0")  # noqa: S104
    return Settings(host, port, location, location, (port, "/metrics"))


def tensorrt_llm(words: Sequence[str]) -> Settings:
    """Parse the command line of trtllm-serve (`tensorrt_llm/commands/serve.py`)."""
    made = parser(
        "trtllm-serve",
        "trust_remote_code enable_chunked_prefill",
        "host revision tokenizer backend log_level config extra_llm_api_options reasoning_parser "
        "kv_cache_free_gpu_memory_fraction",
        "port tp_size pp_size ep_size gpus_per_node max_batch_size max_num_tokens max_seq_len max_beam_width",
    )
    made.add_argument("model")
    read = made.parse_args(words)
    location = weights(made, read.model)
    return Settings(read.host or "localhost", read.port or 8000, location, location, None)


def friendli(words: Sequence[str]) -> Settings:
    """Parse the command line of FriendliAI's container, as far as its documentation describes it."""
    made = parser(
        "friendli",
        "ignore-nan-error",
        "hf-model-name ckpt-path",
        "web-server-port metrics-port num-devices max-batch-size timeout-microseconds",
    )
    read = made.parse_args(words)
    if not os.environ.get("FRIENDLI_CONTAINER_SECRET"):
        made.error("FRIENDLI_CONTAINER_SECRET is not set")
    location = weights(made, read.hf_model_name)
    return Settings("0.0.0.0", read.web_server_port, location, None, (read.metrics_port, "/metrics"))  # noqa: S104


class OpenAI:
    """Server of OpenAI's API."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def application(self) -> web.Application:
        """Return the application at the port of requests."""
        app, found = web.Application(), self._settings
        app.router.add_get("/health", self._health)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        if found.listed is not None:
            app.router.add_get("/v1/models", self._models)
        if found.metrics is not None and found.metrics[0] == found.port:
            app.router.add_get(found.metrics[1], self.metrics)
        return app

    async def metrics(self, _: web.Request) -> web.Response:
        """Return metrics in Prometheus format."""
        return web.Response(text=METRICS)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        card = {"id": self._settings.listed, "object": "model", "created": 0, "owned_by": "stub"}
        return web.json_response({"object": "list", "data": [card]})

    async def _completion(self, request: web.Request) -> web.Response:
        body = await request.json()
        choice = {"index": 0, "text": self._settings.location, "finish_reason": "stop", "logprobs": None}
        return web.json_response(self._answer(body, "text_completion", choice))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        message = {"role": "assistant", "content": self._settings.location}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return web.json_response(self._answer(body, "chat.completion", choice))
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        choice = {"index": 0, "delta": message, "finish_reason": "stop"}
        event = json.dumps(self._answer(body, "chat.completion.chunk", choice))
        await answer.write(f"data: {event}\n\ndata: [DONE]\n\n".encode())
        return answer

    def _answer(self, body: dict[str, Any], kind: str, choice: dict[str, Any]) -> dict[str, Any]:
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        made = {"id": "stub", "object": kind, "created": int(time.time()), "model": body["model"]}
        return made | {"choices": [choice], "usage": usage}


def serve_openai(settings: Settings) -> None:
    """Serve requests, and metrics at their port if it is another one, until SIGTERM."""
    server = OpenAI(settings)
    app = server.application()

    async def start_metrics(_: web.Application) -> None:
        if settings.metrics is None or settings.metrics[0] == settings.port:
            return
        other = web.Application()
        other.router.add_get(settings.metrics[1], server.metrics)
        runner = web.AppRunner(other)
        await runner.setup()
        await web.TCPSite(runner, settings.host, settings.metrics[0]).start()

    app.on_startup.append(start_metrics)
    web.run_app(app, host=settings.host, port=settings.port, print=None)


PARSERS: dict[str, Callable[[Sequence[str]], Settings]] = {
    "sglang.launch_server": sglang,
    "text-generation-launcher": tgi,
    "trtllm-serve": tensorrt_llm,
    "friendli": friendli,
}
"""Parser of each program. A module that Python runs (`python3 -m MODULE`) counts as a program."""


def main(program: str, words: Sequence[str]) -> None:
    """Run a program of an engine."""
    if program == "python3":
        if list(words[:1]) != ["-m"]:
            sys.exit(f"python3 {words[:1]}: the stub runs only modules")
        program, words = words[1], words[2:]
    if program == "ollama":
        stub_ollama.main(words)
    else:
        serve_openai(PARSERS[program](words))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
