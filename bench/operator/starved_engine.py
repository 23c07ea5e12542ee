"""Simulated Ray heads for `starved`, at two addresses.

The model at the first address answers at once. The model at the second one never starts: a request to it
hangs, as in Ray Serve without a replica. The process is separate, so that no work of the client delays it.
"""

import asyncio

from aiohttp import web

from bench.operator.reconcile import service
from daybreak.ray.ports import SERVE

ANSWERS, HANGS = "127.0.0.1", "127.0.0.2"
MODEL = service(0)["spec"]["models"][0]["name"]


async def _health(_: web.Request) -> web.Response:
    return web.Response(text="success")


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": MODEL}]})


async def _answer(_: web.Request) -> web.Response:
    return web.json_response({"object": "text_completion", "choices": [{"text": "!"}]})


async def _hang(_: web.Request) -> web.Response:
    await asyncio.sleep(3600)
    raise web.HTTPGatewayTimeout


async def main() -> None:
    """Listen at both addresses, and print that they are ready."""
    for host, models, answer in ((ANSWERS, _models, _answer), (HANGS, _hang, _hang)):
        app = web.Application()
        app.router.add_get("/-/healthz", _health)
        app.router.add_get("/v1/models", models)
        app.router.add_post("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, host, SERVE, backlog=1024).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
