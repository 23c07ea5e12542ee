"""A namespace with more models than one command of HAProxy's admin socket takes, with real HAProxies."""

import hashlib
from dataclasses import replace

from tests.gateway.town import Town

MODELS = 1200
LONG = "m" * 90


async def test_all_of_1200_models_are_listed_until_removed(town: Town) -> None:
    await town.wake(1)
    known = town.routes["tiny"]
    many = {f"{LONG}-{number}": known for number in range(MODELS)}
    await town.router.set_routes(town.routes | many)
    status, listed = await town.get("/v1/models")
    assert status == 200
    assert {model["id"] for model in listed["data"]} == {*town.routes, *many}
    await town.router.set_routes(town.routes)
    _, listed = await town.get("/v1/models")
    assert {model["id"] for model in listed["data"]} == set(town.routes)


async def test_each_of_1200_keys_lists_only_its_models(town: Town) -> None:
    keys = [f"key-{number}" for number in range(MODELS)]
    digests = [hashlib.sha256(key.encode()).hexdigest() for key in keys]
    first = town.routes["tiny"]
    many = {f"m-{number}": replace(first, keys=(digest,)) for number, digest in enumerate(digests)}
    # And one that as many keys open.
    many["all"] = replace(first, keys=tuple(digests))
    await town.router.set_routes(many)
    for number in (0, MODELS // 2, MODELS - 1):
        headers = {"Authorization": f"Bearer {keys[number]}"}
        async with town.clients.get(f"{town.url}/v1/models", headers=headers) as answer:
            listed = await answer.json()
        assert {model["id"] for model in listed["data"]} == {f"m-{number}", "all"}
