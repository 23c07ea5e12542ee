"""Replicas' own ports, below uvicorn as in the Ray images, each of which is closed when its number is read.

python closing_ports.py COUNT, with the packages of the Ray image. Says the ports first, as a list of JSON.
For each number that it reads, it leaves and closes that port at once, and then prints `closed`. At the end of
the input it prints how often each request was begun, by its X-Request-Id.
"""

import asyncio
import json
import sys
from collections import Counter
from typing import Any

from daybreak_runtime.http.admission import Admission
from daybreak_runtime.http.asgi import Receive, Scope, Send
from daybreak_runtime.http.front import EngineFront
from daybreak_runtime.http.listener import Listener

BEGUN: Counter[str] = Counter()


async def engine(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that answers at once."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    (name,) = [value.decode() for key, value in scope["headers"] if key == b"x-request-id"]
    BEGUN[name] += 1
    while (await receive()).get("more_body"):
        pass
    head = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b"{}"})


def write(what: Any) -> None:
    """One line."""
    print(json.dumps(what), flush=True)


async def main(count: int) -> None:
    """Serve until the input ends."""
    doors = [EngineFront(engine, Admission(lambda: 1000, lambda: 1000), lambda: True) for _ in range(count)]
    listeners = [Listener(door) for door in doors]
    for listener in listeners:
        await listener.start(0)
    write([listener.port for listener in listeners])
    while line := await asyncio.to_thread(sys.stdin.readline):
        doors[int(line)].leave()
        await listeners[int(line)].stop(30)
        write("closed")
    write(BEGUN)


asyncio.run(main(int(sys.argv[1])))
