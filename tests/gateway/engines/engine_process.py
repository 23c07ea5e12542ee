"""Process of an engine with the command and the environment of a ModelServer's container."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from cluster.paths import REPOSITORY
from daybreak.api.common.volume_names import CACHE_DIRECTORY
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import EngineProfile, Engines, profiles
from daybreak.api.modelserver.validation import problems
from daybreak.controller.asking.model_client import HttpModelClient
from daybreak.kinds.modelserver.objects.deployment import deployment
from tests.gateway.engines.stub_engine import PARSERS
from tests.gateway.ports import free_ports
from tests.unit.modelserver.servers import PLATFORM, manifest

HOST = "127.0.0.1"
MODEL = "chat"
INNER_PORT = 11433
"""Port at which Ollama imports its model, before it serves requests."""
ENTRY_POINTS = {"tgi": "text-generation-launcher", "friendli": "friendli"}
"""Program that an image starts if the container has no command."""
PROGRAMS = ("python3", "ollama", *PARSERS)
START_SECONDS = 60
STOP_SECONDS = 20


def on_free_ports(engine: str) -> Engines:
    """Return the profile of an engine with free ports, because tests run in parallel."""
    profile = profiles()[engine]
    fixed = (profile.port, profile.metrics_port or profile.port, INNER_PORT)
    first = free_ports(len(fixed))
    moved = {str(port): str(first + number) for number, port in reversed(list(enumerate(fixed)))}
    text = re.sub(
        rf"\b({'|'.join(moved)})\b", lambda found: moved[found[0]], profile.model_dump_json(by_alias=True)
    )
    return Engines({engine: EngineProfile.model_validate_json(text)})


class EngineProcess:
    """Container of a ModelServer, as a process that starts and stops.

    `programs` are the folders of the image's programs. `secrets` are values of the Secrets that the spec
    names.
    """

    def __init__(
        self, folder: Path, programs: Sequence[Path], engine: str, secrets: Mapping[str, str], **spec: Any
    ) -> None:
        desired = manifest(engine=engine, image=f"{engine}:1", **spec)
        self.server = ModelServer.from_manifest(desired, on_free_ports(engine))
        assert problems(self.server) == ()
        [container] = deployment(self.server, PLATFORM, 1)["spec"]["template"]["spec"]["containers"]
        entry = [] if container.get("command") or engine not in ENTRY_POINTS else [ENTRY_POINTS[engine]]
        self.words: list[str] = [*entry, *container.get("command", []), *container.get("args", [])]
        cache = folder / "cache"
        cache.mkdir(exist_ok=True)
        env = {each["name"]: each.get("value") or secrets[each["name"]] for each in container["env"]}
        self._env = {name: text.replace(CACHE_DIRECTORY, str(cache)) for name, text in env.items()}
        # Kubernetes sets the name of the pod, at which nothing listens.
        path = os.pathsep.join([*map(str, programs), "/usr/bin", "/bin"])
        self._env |= {"PATH": path, "HOSTNAME": "chat-server-0"}
        self._log = folder / "engine.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def port(self) -> int:
        """Port of requests."""
        return self.server.profile.port

    @property
    def log(self) -> str:
        """Output of the process."""
        return self._log.read_text()

    async def launch(self) -> asyncio.subprocess.Process:
        """Start the process."""
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.words, stdout=log, stderr=log, env=self._env, start_new_session=True
            )
        return self._process

    async def start(self) -> None:
        """Start the process, and wait until it is ready for the kubelet."""
        process = await self.launch()
        path = self.server.readiness_path
        async with asyncio.timeout(START_SECONDS), aiohttp.ClientSession() as session:
            while not await answers_200(session, f"http://{HOST}:{self.port}{path}"):
                assert process.returncode is None, self.log[-2000:]
                await asyncio.sleep(0.05)

    async def stop(self) -> int:
        """Stop the process as the kubelet does, and return its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            return await self._process.wait()

    async def metrics(self) -> str | None:
        """Return the text at the path of the metrics, or None if the pod announces none."""
        if (at := self.server.profile.metrics_at) is None:
            return None
        url = f"http://{HOST}:{at[0]}{at[1]}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.status == 200
            return await answer.text()

    async def kill(self) -> None:
        """Kill the process if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def probe(self) -> tuple[bool, str]:
        """Return True if the operator accepts the model's first answer, and the operator's message."""
        client, path = HttpModelClient(), self.server.answer_path
        base = f"http://{HOST}:{self.port}{'' if path else '/v1'}"
        try:
            found = await client.ask(
                self.server, self.server.model, base, 30, path, self.server.spec.model.task
            )
            return found.answered, found.message
        finally:
            await client.close()


async def answers_200(session: aiohttp.ClientSession, url: str) -> bool:
    """Return True if a server returns 200 at a URL."""
    try:
        async with session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


def stub_programs(folder: Path) -> Sequence[Path]:
    """Return a folder with a program for each stub, as the path of programs."""
    made = folder / "bin"
    made.mkdir()
    for name in PROGRAMS:
        program = made / name
        words = json.dumps([sys.executable, "-m", "tests.gateway.engines.stub_engine", name])
        # The stub's own imports are no part of the container's environment.
        program.write_text(
            f"#!{sys.executable}\nimport os, sys\nos.chdir({str(REPOSITORY)!r})\n"
            f"os.execv({sys.executable!r}, {words} + sys.argv[1:])\n"
        )
        program.chmod(0o755)
    return [made]


@asynccontextmanager
async def engine_process(
    folder: Path, programs: Sequence[Path], engine: str, secrets: Mapping[str, str] | None = None, **spec: Any
) -> AsyncIterator[EngineProcess]:
    """Yield a process that ends with the test."""
    made = EngineProcess(folder, programs, engine, secrets or {}, **spec)
    try:
        yield made
    finally:
        await made.kill()
