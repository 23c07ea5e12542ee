"""Each model of a service has a separate gate: a request for a sleeping model waits for that one only."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.village import Village, village

BIG, SMALL, BOTH = b'{"model": "big"}', b'{"model": "org/small"}', b'{"messages": []}'
FORM = b'--zz\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n--zz--\r\n'
FORM_TYPE = {"Content-Type": "multipart/form-data; boundary=zz"}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Village]:
    async with village(tmp_path, "big", "org/small") as made:
        yield made


def error(answer: tuple[int, Any]) -> tuple[int, str, str]:
    """Return the status, code and message of an error."""
    status, body = answer
    return status, body["error"]["code"], body["error"]["message"]


async def until_unknown(scene: Village, body: bytes) -> None:
    """Wait until a removed model is gone; until then it answers."""
    async with asyncio.timeout(20):
        while (answer := await scene.ask("none", body))[0] != 404:
            assert answer[0] == 200
            await asyncio.sleep(0.02)
    assert error(answer)[:2] == (404, "model_not_found")


class TestSeveral:
    """A service with two models."""

    async def test_open_model_serves_while_other_model_holds(self, scene: Village) -> None:
        await scene.gate(big="Open", org__small="Closed")
        held = scene.begin("held", SMALL)
        await scene.until("org/small", lambda report: report.held == 1)
        for number in range(3):
            assert (await scene.ask(f"r{number}", BIG))[0] == 200
        big = await scene.until("big", lambda report: report.arrivals == 3 and not report.in_flight)
        assert (big.gate, big.held) == ("open", 0)
        front = scene.report()
        assert front is not None
        assert (front.gate, front.held, front.arrivals) == ("closed", 0, 0)
        await scene.gate(org__small="Open")
        assert (await held)[0] == 200
        assert scene.replicas["org/small"].observed == {"held": 1}
        assert scene.replicas["big"].observed.total() == 3
        assert not scene.proxy.observed

    async def test_failed_model_rejects_only_its_own_requests(self, scene: Village) -> None:
        await scene.gate(big="Open", org__small="Closed")
        held = scene.begin("held", SMALL)
        await scene.until("org/small", lambda report: report.held == 1)
        await scene.gate(org__small={"state": "Failed", "reason": "no GPU fits"})
        assert error(await held) == (503, "model_failed", "no GPU fits")
        assert error(await scene.ask("more", SMALL)) == (503, "model_failed", "no GPU fits")
        assert (await scene.ask("one", BIG))[0] == 200
        # A request without a recognizable model may be for the one that answers.
        assert (await scene.ask("both", BOTH))[0] == 200
        assert scene.proxy.observed == {"both": 1}
        await scene.gate(big={"state": "Failed", "reason": "no node"})
        status, code, message = error(await scene.ask("none", BOTH))
        assert (status, code) == (503, "model_failed")
        assert "no GPU fits" in message
        assert "no node" in message

    async def test_request_without_model_is_held_until_all_gates_are_open(self, scene: Village) -> None:
        await scene.gate(big="Closed", org__small="Closed")
        held = scene.begin("held", BOTH)
        await scene.until("", lambda report: report.held == 1)
        await scene.gate(big="Open")
        await asyncio.sleep(0.7)
        assert not held.done()
        for model in ("big", "org/small"):
            report = scene.report(model)
            assert report is not None
            assert report.held == 0
        await scene.gate(org__small="Open")
        assert (await held)[0] == 200
        assert scene.proxy.observed == {"held": 1}

    async def test_health_check_depends_only_on_requested_model(self, scene: Village) -> None:
        scene.spec["sleep"] = {"healthChecks": {"userAgents": ["monitor/"]}}
        await scene.gate(big="Open", org__small="Closed")
        for number, header in enumerate(({"User-Agent": "monitor/2"}, {"Daybreak-Health-Check": "1"})):
            assert (await scene.ask(f"big-{number}", BIG, **header))[0] == 200
            asleep = {"status": "asleep", "model": "org/small", "choices": []}
            assert await scene.ask(f"small-{number}", SMALL, **header) == (200, asleep)
        assert scene.replicas["big"].observed.total() == 2
        for model in ("big", "org/small", ""):
            report = await scene.until(model, lambda report: not report.in_flight)
            assert (report.arrivals, report.held) == (0, 0)

    @pytest.mark.parametrize(
        ("body", "path", "headers"),
        [
            (b' \n{"model": "big"}', "/v1/embeddings", {}),
            (b'{"mod\\u0065l": "b\\u0069g"}', "/v1/embeddings", {}),
            (b'\xef\xbb\xbf{"model": "big"}', "/v1/embeddings", {}),
            (FORM % b"big", "/v1/audio/transcriptions", FORM_TYPE),
            (b'{"n": 1, "model": "big"}', "/v1/embeddings", {}),
        ],
    )
    async def test_model_name_is_recognized_in_any_notation(
        self, scene: Village, body: bytes, path: str, headers: dict[str, str]
    ) -> None:
        await scene.gate(big="Closed", org__small="Closed")
        held = scene.begin("held", body, path, **headers)
        await scene.until("big", lambda report: report.held == 1)
        await scene.gate(big="Open")
        assert (await held)[0] == 200
        assert scene.replicas["big"].observed == {"held": 1}

    async def test_each_gate_has_its_own_epoch_and_limits(self, scene: Village) -> None:
        scene.spec = {"hold": {"maxRequests": 1}}
        await scene.gate(big={"state": "Closed", "holdSeconds": 1}, org__small="Closed")
        small = scene.begin("small", SMALL)
        await scene.until("org/small", lambda report: report.held == 1)
        big = scene.begin("big", BIG)
        await scene.until("big", lambda report: report.held == 1)
        assert error(await scene.ask("more", BIG))[:2] == (429, "hold_full")
        assert error(await big)[:2] == (503, "wake_timeout")
        assert not small.done()
        first, second = scene.report("big"), scene.report("org/small")
        assert first is not None
        assert second is not None
        assert first.epoch != second.epoch
        scene.write(big=None, org__small="Open")
        assert (await small)[0] == 200

    async def test_unknown_gate_state_counts_as_closed(self, scene: Village) -> None:
        await scene.gate(big="Open", org__small="Snoozing")
        report = scene.report("org/small")
        assert report is not None
        assert report.gate == "closed"

    async def test_request_to_any_gate_requires_valid_key(self, scene: Village) -> None:
        file = scene.config.folder.parent / "keys" / "team" / "one"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"sk-one")
        scene.spec = {"access": {"apiKeys": [{"secretRef": {"name": "team", "key": "one"}}]}}
        await scene.gate(big="Open", org__small="Closed")
        for body in (BIG, SMALL, BOTH):
            assert error(await scene.ask("r", body))[:2] == (401, "invalid_api_key")
        assert (await scene.ask("r", BIG, Authorization="Bearer sk-one"))[0] == 200
        assert "authorization" not in scene.replicas["big"].headers
        snapshot = await scene.gateway.snapshot()
        assert {state.held for state in snapshot.slots.values()} == {0}
        assert hashlib.sha256(b"sk-one").hexdigest() not in json.dumps(scene.replicas["big"].headers)

    async def test_models_and_loaded_adapters_are_listed_and_others_return_404(self, scene: Village) -> None:
        scene.spec = {"big": {"lora": {"adapters": [{"name": "polite"}, {"name": "refused"}]}}}
        await scene.gate(big={"state": "Closed", "adapters": ["polite"]}, org__small="Closed")
        url = f"http://127.0.0.1:{scene.config.first_port}/v1/models"
        async with scene.clients.get(url) as answer:
            assert [model["id"] for model in (await answer.json())["data"]] == ["big", "polite", "org/small"]
        status, code, message = error(await scene.ask("none", b'{"model": "refused"}'))
        assert (status, code) == (404, "model_not_found")
        assert "big, polite, org/small" in message
        held = scene.begin("held", b'{"model": "polite"}')
        await scene.until("big", lambda report: report.held == 1)
        await scene.gate(big={"state": "Open", "adapters": ["polite"]})
        assert (await held)[0] == 200
        assert scene.replicas["big"].observed == {"held": 1}

    async def test_full_queue_of_one_model_does_not_affect_other_model(self, scene: Village) -> None:
        scene.spec = {"big": {"serve": {"maxOngoingRequests": 1, "maxQueuedRequests": 1}}}
        await scene.gate(big="Open", org__small="Open")
        scene.replicas["big"].hold_answers = True
        waiting = []
        for number in range(2):
            waiting.append(scene.begin(f"r{number}", BIG))
            await scene.until("big", lambda report: report.in_flight == len(waiting))
        assert error(await scene.ask("more", BIG))[:2] == (429, "queue_full")
        assert (await scene.ask("other", SMALL))[0] == 200
        scene.replicas["big"].finish.set()
        assert [status for status, _ in await asyncio.gather(*waiting)] == [200, 200]

    async def test_closing_gate_of_one_model_leaves_other_model_open(self, scene: Village) -> None:
        await scene.gate(big="Open", org__small="Open")
        scene.replicas["org/small"].finish.clear()
        stream = asyncio.create_task(scene.stream(SMALL))
        await scene.until("org/small", lambda report: report.in_flight == 1)
        await scene.gate(org__small="Closed")
        report = scene.report("org/small")
        assert report is not None
        assert (report.in_flight, report.held) == (1, 0)
        assert (await scene.ask("one", BIG))[0] == 200
        held = scene.begin("two", SMALL)
        await scene.until("org/small", lambda report: report.held == 1)
        scene.replicas["org/small"].finish.set()
        assert b"[DONE]" in await stream
        await scene.gate(org__small="Open")
        assert (await held)[0] == 200

    async def test_removed_model_rejects_held_requests_and_finishes_streams(self, scene: Village) -> None:
        await scene.gate(big="Open", org__small="Open")
        stream = asyncio.create_task(scene.stream(SMALL))
        await scene.until("org/small", lambda report: report.in_flight == 1)
        await scene.gate(org__small="Closed")
        held, other = scene.begin("held", SMALL), scene.begin("other", BOTH)
        await scene.until("org/small", lambda report: report.held == 1)
        await scene.until("", lambda report: report.held == 1)
        scene.write(org__small=None)
        status, code, message = error(await held)
        assert (status, code, "org/small" in message) == (404, "model_not_found", True)
        assert (await other)[0] == 200, "the front waits for the models that there are"
        assert error(await scene.ask("late", SMALL))[:2] == (404, "model_not_found")
        await asyncio.sleep(1.5)  # beyond a look at what may be freed, and one at everything
        await scene.until("org/small", lambda report: (report.in_flight, report.held) == (1, 0))
        scene.replicas["org/small"].finish.set()
        assert b"[DONE]" in await stream
        async with asyncio.timeout(20):
            while scene.report("org/small") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (await scene.ask("big", BIG))[0] == 200

    async def test_model_added_again_during_its_stream_keeps_its_gate(self, scene: Village) -> None:
        await scene.gate(big="Open", org__small="Open")
        stream = asyncio.create_task(scene.stream(SMALL))
        await scene.until("org/small", lambda report: report.in_flight == 1)
        scene.write(org__small=None)
        await until_unknown(scene, SMALL)
        await scene.gate(org__small="Closed")
        held = scene.begin("held", SMALL)
        await scene.until("org/small", lambda report: (report.held, report.in_flight) == (1, 1))
        await scene.gate(org__small="Open")
        assert (await held)[0] == 200
        scene.replicas["org/small"].finish.set()
        assert b"[DONE]" in await stream

    async def test_new_service_starts_without_state_of_deleted_service(self, scene: Village) -> None:
        await scene.gate(big="Closed", org__small="Closed")
        held = [scene.begin(f"r{number}", body) for number, body in enumerate((BIG, SMALL, BOTH))]
        for model in ("big", "org/small", ""):
            await scene.until(model, lambda report: report.held == 1)
        scene.gone()
        assert {(await one)[0] for one in held} == {404}
        assert (await scene.ask("none", BIG))[0] == 404
        async with asyncio.timeout(20):
            while scene.feed.states:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await scene.gate(big="Open")
        report = scene.report("big")
        assert report is not None
        assert (report.arrivals, scene.report()) == (0, None)
        assert (await scene.ask("one", BIG))[0] == 200


class TestOneBecomesTwo:
    """A model is appended while the first one receives requests."""

    async def test_held_requests_stay_with_first_model_if_second_is_added(self, scene: Village) -> None:
        await scene.gate(big="Closed")
        assert scene.report() is None, "one gate, one report"
        held = [
            scene.begin("small", BIG),
            scene.begin("nameless", BOTH),
            scene.begin("responses", BIG, "/v1/responses"),
        ]
        await scene.until("big", lambda report: report.held == 3)
        await scene.gate(org__small="Closed")
        await scene.until("big", lambda report: report.held == 3)
        held.append(scene.begin("late", BIG))
        await scene.until("big", lambda report: report.held == 4)
        await scene.gate(big="Open")
        assert [status for status, _ in await asyncio.gather(*held)] == [200] * 4
        assert scene.replicas["big"].observed.total() == 4
        assert not scene.proxy.observed
        report = await scene.until("big", lambda report: not report.in_flight)
        assert report.arrivals == 4

    async def test_running_stream_still_counts_for_first_model_if_second_is_added(
        self, scene: Village
    ) -> None:
        await scene.gate(big="Open")
        stream = asyncio.create_task(scene.stream(BIG))
        await scene.until("big", lambda report: report.in_flight == 1)
        await scene.gate(org__small="Closed")
        held = scene.begin("held", SMALL)
        await scene.until("org/small", lambda report: report.held == 1)
        await scene.until("big", lambda report: report.in_flight == 1)
        front = scene.begin("front", BOTH)
        await scene.until("", lambda report: report.held == 1)
        scene.replicas["big"].finish.set()
        assert b"[DONE]" in await stream
        await scene.until("big", lambda report: report.in_flight == 0)
        await scene.gate(org__small="Open")
        assert ((await held)[0], (await front)[0]) == (200, 200)
        assert (scene.replicas["org/small"].observed, scene.proxy.observed) == ({"held": 1}, {"front": 1})

    async def test_replaced_model_rejects_held_request_and_new_model_serves(self, scene: Village) -> None:
        await scene.gate(big="Closed")
        held = scene.begin("held", BIG)
        await scene.until("big", lambda report: report.held == 1)
        await scene.gate(big=None, org__small="Closed")
        assert error(await held)[:2] == (404, "model_not_found")
        held = scene.begin("new", SMALL)
        await scene.until("org/small", lambda report: report.held == 1)
        await scene.gate(org__small="Open")
        assert (await held)[0] == 200
        assert (await scene.ask("nameless", BOTH))[0] == 200

    async def test_second_model_keeps_held_request_if_first_is_removed(self, scene: Village) -> None:
        await scene.gate(big="Open")
        await scene.gate(org__small="Closed")
        held = scene.begin("held", SMALL)
        await scene.until("org/small", lambda report: report.held == 1)
        await scene.gate(big=None)
        await until_unknown(scene, BIG)
        assert not held.done()
        await scene.gate(org__small="Open")
        assert (await held)[0] == 200

    async def test_request_is_held_while_service_lists_no_models(self, scene: Village) -> None:
        await scene.gate(big="Open")
        scene.write(big=None)
        await scene.until("", lambda report: report.gate == Gate.CLOSED.value)
        held = scene.begin("held", BIG)
        await scene.until("", lambda report: report.held == 1)
        await scene.gate(big="Open")
        assert (await held)[0] == 200


@pytest.mark.parametrize("policy", ["Session", "Prefix"])
async def test_routing_policy_applies_only_to_its_model(tmp_path: Path, policy: str) -> None:
    async with village(tmp_path, "big", "org/small") as scene:
        scene.spec = {"big": {"routing": {"policy": policy}}}
        await scene.gate(big="Open", org__small="Open")
        for number in range(3):
            session = {"x-session-id": str(number)}
            assert (await scene.ask(f"b{number}", BIG, **session))[0] == 200
            assert (await scene.ask(f"s{number}", SMALL, **session))[0] == 200
        assert [serve.observed.total() for serve in scene.replicas.values()] == [3, 3]
        choices = await scene.gateway._api.command(f"show map {scene.config.maps.choices}")
        assert len(choices.splitlines()) == 1


async def test_model_without_backend_is_served_through_front(tmp_path: Path) -> None:
    async with village(tmp_path, "big", "org/small", model_backends=1) as scene:
        scene.write(big="Open", org__small="Open")
        await scene.until("", lambda report: report.gate == "open" and report.servers_up > 0)
        await scene.until("big", lambda report: report.servers_up > 0)
        assert (await scene.ask("big", BIG))[0] == 200
        assert (await scene.ask("small", SMALL))[0] == 200
        assert scene.report("org/small") is None, "nobody may put it to sleep"
        assert (scene.replicas["big"].observed, scene.proxy.observed) == ({"big": 1}, {"small": 1})


async def test_requests_are_split_by_cluster_weights(tmp_path: Path) -> None:
    async with village(tmp_path, "big") as scene:
        replicas = scene.replicas["big"], await scene.replica("big", "next")

        async def weights(first: int, second: int) -> list[str]:
            """Give the clusters these weights. Returns the weights of the replicas that receive requests."""
            scene.backends = [{"cluster": "c", "weight": first}, {"cluster": "next", "weight": second}]
            await scene.gate(big="Open")
            count = 1 + bool(second)
            await scene.until("big", lambda report: report.servers_up == count)
            command = scene.gateway._api.command
            each = [await command(f"get weight s0/{serve.address.name}") for serve in replicas[:count]]
            return [answer.split()[0] for answer in each]

        assert await weights(90, 0) == ["1"], "one alone needs none"
        assert await weights(90, 30) == ["90", "30"]
        for serve in replicas:
            serve.hold_answers = True
        asking = [scene.begin(f"r{number}", BIG) for number in range(8)]
        async with asyncio.timeout(20):
            while sum(serve.observed.total() for serve in replicas) < len(asking):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert [serve.observed.total() for serve in replicas] == [6, 2]
        for serve in replicas:
            serve.finish.set()
        assert {status for status, _ in await asyncio.gather(*asking)} == {200}
        assert await weights(90, 0) == ["1"]
