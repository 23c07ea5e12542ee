"""Names of models with a colon or a slash in front, through a real router and a real gateway."""

from pathlib import Path
from urllib.parse import quote

import pytest

from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.town import MODELS, Town
from tests.gateway.village import village

NAMES = ("coder:7b", "/models/coder")


@pytest.mark.parametrize("name", NAMES)
async def test_router_finds_model_with_colon_or_slash_in_name(town: Town, name: str) -> None:
    await town.wake(1)
    slot = Slot(service="service-1", gate=Gate.OPEN, epoch=2, models=(*MODELS[1], name))
    await town.gateway.set_gate("s1", slot)
    await town.router.set_routes(town.routes | {name: town.routes["tiny"]})
    _, listed = await town.get("/v1/models")
    assert name in {model["id"] for model in listed["data"]}
    for written in (name, quote(name, safe="")):
        status, card = await town.get(f"/v1/models/{written}")
        assert (status, card["id"]) == (200, name)
    assert (await town.ask("r1", {"model": name, "messages": []}))[0] == 200
    status, error = await town.ask("r2", {"model": f"{name}x", "messages": []})
    assert (status, error["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("name", NAMES)
async def test_gate_opens_for_model_with_colon_or_slash_in_name(tmp_path: Path, name: str) -> None:
    async with village(tmp_path, "big", name) as scene:
        await scene.gate(big="Open", **{name: "Closed"})
        held = scene.begin("held", b'{"model": "%b"}' % name.encode())
        await scene.until(name, lambda report: report.held == 1)
        await scene.gate(**{name: "Open"})
        assert (await held)[0] == 200
        assert scene.replicas[name].observed == {"held": 1}
