"""Engine in a container behind the gateway: first answer, replicas by load, sleep and wake."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml
from openai import OpenAI

from story.load.storm import AT_ONCE, through_those_of_a_model_server
from story.objects.kubernetes import NAMESPACE, Kubernetes, eventually
from story.test_05_sleep import STORM, ask, base_url

SAMPLE = Path(__file__).parents[2] / "manifests" / "samples" / "model-server.yaml"
MANIFEST: dict[str, Any] = yaml.safe_load(SAMPLE.read_text())
NAME: str = MANIFEST["metadata"]["name"]
MODEL: str = MANIFEST["spec"]["model"]["name"]
CLIENTS = 12
"""Enough clients that two requests are nearly always in progress, though most clients wait for a core."""
MOST_REQUESTS = 3000
"""Maximum number of requests that the clients send to cause a second replica."""


def status(kubernetes: Kubernetes) -> dict[str, Any]:
    """Return the status of the server."""
    found = kubernetes.get("modelserver", NAME)
    assert found is not None
    return dict(found.get("status") or {})


def condition(kubernetes: Kubernetes, kind: str) -> dict[str, Any]:
    """Return one of the server's conditions, empty if it does not exist."""
    return next((each for each in status(kubernetes).get("conditions", ()) if each["type"] == kind), {})


def pods(kubernetes: Kubernetes) -> list[str]:
    """Return the server's pods."""
    return kubernetes.names(
        "pods", "-l", f"daybreak.dev/owner-kind=ModelServer,daybreak.dev/owner-name={NAME}"
    )


@pytest.fixture(scope="module")
def server(installed: Kubernetes) -> str:
    """Apply the sample, wait until it is ready, and return its address."""
    installed.apply(MANIFEST)
    installed.target.kubectl(
        "wait", "-n", NAMESPACE, "--for=condition=Ready", f"modelserver/{NAME}", "--timeout=600s"
    )
    return base_url(installed, NAME)


def test_model_server_answers_at_own_and_shared_address(kubernetes: Kubernetes, server: str) -> None:
    assert ask(server, MODEL, stream=False)
    assert ask(server, MODEL, stream=True)
    common = base_url(kubernetes, "llm")
    with OpenAI(base_url=common, api_key="none", max_retries=0) as client:
        assert MODEL in [each.id for each in client.models.list()]
    assert ask(common, MODEL, stream=False)


def test_model_server_scales_up_and_down_with_requests(kubernetes: Kubernetes, server: str) -> None:
    def autoscale(downscale_delay: str) -> None:
        rules = {"maxReplicas": 2, "targetOngoingRequests": 1, "upscaleDelay": "1s"}
        patch = {"spec": {"autoscaling": rules | {"downscaleDelay": downscale_delay}}}
        words = ("modelserver", NAME, "--type=merge", "-p", json.dumps(patch))
        kubernetes.target.kubectl("patch", "-n", NAMESPACE, *words)

    desired, ready, sent = Event(), Event(), count()

    def client(enough: Event) -> list[str | None]:
        answers: list[str | None] = []
        messages: list[Any] = [{"role": "user", "content": "Good morning"}]
        with OpenAI(base_url=server, api_key="none", max_retries=0, timeout=300) as openai:
            # A bound in case no replica ever becomes ready.
            while not enough.is_set() and next(sent) < MOST_REQUESTS:
                # Long requests, so that the engine takes most of the time: its processes take both cores of a
                # small machine, so its clients are slow.
                answer = openai.chat.completions.create(
                    model=MODEL, messages=messages, max_tokens=900, extra_body={"ignore_eos": True}
                )
                answers.append(answer.choices[0].finish_reason)
        return answers

    autoscale(downscale_delay="1h")
    with ThreadPoolExecutor(CLIENTS) as pool:
        # One client continues while the second replica starts, on a machine of two cores.
        clients = [pool.submit(client, each) for each in (ready, *[desired] * (CLIENTS - 1))]
        try:
            decided = eventually(
                lambda: status(kubernetes).get("autoscaling") or {},
                lambda message: message.get("currentReplicas") == 2,
                minutes=4,
            )
            desired.set()
            eventually(lambda: status(kubernetes)["replicas"], lambda there: there == 2, minutes=8)
        finally:
            desired.set()
            ready.set()
        answers = [answer for each in clients for answer in each.result()]
    assert decided
    assert answers
    assert set(answers) <= {"length", "stop"}, "none is lost"
    autoscale(downscale_delay="5s")
    eventually(lambda: status(kubernetes)["replicas"], lambda there: there == 1, minutes=3)
    assert ask(server, MODEL, stream=False)


def test_no_request_is_lost_while_model_server_sleeps_and_wakes(kubernetes: Kubernetes, server: str) -> None:
    """The server goes through every transition, like LLMService's storm (test_05_sleep): none is lost."""
    # With one replica: a second one would take cores from the first.
    patch = '{"spec": {"sleep": {"afterIdle": "4s"}, "autoscaling": null}}'
    kubernetes.target.kubectl("patch", "-n", NAMESPACE, "modelserver", NAME, "--type=merge", "-p", patch)
    tally = asyncio.run(through_those_of_a_model_server(kubernetes, NAME, server, MODEL, STORM))
    print(f"storm: {tally.sent} sent, {tally.connections} connections, {tally.waves}, {tally.phases}")
    assert tally.sent >= STORM
    assert not tally.lost, tally.lost[:5]
    assert not tally.wrong, tally.wrong[:5]
    assert tally.answered == tally.sent
    assert tally.connections <= AT_ONCE, "no connection was closed during the storm"
    assert {"Awake", "Draining", "Asleep", "Waking"} <= {phase for phase, _ in tally.waves}
    assert tally.turned_round, tally.phases
    eventually(lambda: pods(kubernetes), lambda observed: not observed, minutes=3)
    assert condition(kubernetes, "Ready")["status"] == "True", "asleep is healthy"
    with OpenAI(base_url=server, api_key="none", max_retries=0) as client:
        assert [each.id for each in client.models.list()] == [MODEL], "a sleeping model is listed"
    assert status(kubernetes)["phase"] == "Asleep", "to list models is not to use them"
    wake = status(kubernetes)["gate"]["models"][0]["wake"]
    assert wake["phases"]["firstToken"] == wake["seconds"] > 0


def test_model_server_deletion_removes_its_objects(kubernetes: Kubernetes, server: str) -> None:
    kubernetes.delete("modelserver", NAME)
    eventually(
        lambda: kubernetes.names(
            "deployments,services,serviceaccounts,networkpolicies,poddisruptionbudgets,pods",
            "-l",
            f"daybreak.dev/owner-kind=ModelServer,daybreak.dev/owner-name={NAME}",
        ),
        lambda left: not left,
        minutes=3,
    )
