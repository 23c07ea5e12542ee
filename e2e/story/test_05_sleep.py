"""Sleep and wake in the real cluster: no client loses a request because a model slept."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openai import OpenAI

from story.load.storm import AT_ONCE, phase, through_every_transition
from story.objects.kubernetes import Kubernetes, eventually

STORM = 1000
"""Minimum number of requests."""


def service(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    """Return the LLMService."""
    found = kubernetes.get("llm", name)
    assert found is not None
    return found


def pods(kubernetes: Kubernetes, name: str, node_type: str) -> list[str]:
    """Return the service's Ray pods of a node type, `head` or `worker`."""
    return kubernetes.names(
        "pods",
        "-l",
        f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={name},ray.io/node-type={node_type}",
    )


def workers(kubernetes: Kubernetes, name: str) -> list[str]:
    """Return the service's worker pods."""
    return pods(kubernetes, name, "worker")


def base_url(kubernetes: Kubernetes, name: str) -> str:
    """Return the service's address as reached from the node, through both gateways."""
    found = kubernetes.get("service", name)
    assert found is not None
    return f"http://{found['spec']['clusterIP']}/v1"


def fall_asleep(kubernetes: Kubernetes, name: str, depth: str, after: str = "5s") -> None:
    """Set an idle time and a depth, and wait until the service sleeps."""
    kubernetes.patch(name, {"spec": {"sleep": {"afterIdle": after, "depth": depth}}})
    eventually(
        lambda: service(kubernetes, name)["status"].get("sleepDepth"),
        lambda observed: observed == depth,
        minutes=5,
    )


def ask(base: str, model: str, *, stream: bool) -> str:
    """Return one answer, without a limit on the hold."""
    with OpenAI(base_url=base, api_key="none", max_retries=0, timeout=900) as client:
        messages: list[Any] = [{"role": "user", "content": "Good morning"}]
        if not stream:
            answer = client.chat.completions.create(model=model, messages=messages, max_tokens=4)
            return answer.choices[0].message.content or ""
        chunks = client.chat.completions.create(model=model, messages=messages, max_tokens=4, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def measured(kubernetes: Kubernetes, name: str, depth: str) -> None:
    """Check that the last wake was from this depth and that each of its phases was measured."""
    wake = service(kubernetes, name)["status"]["gate"]["models"][0]["wake"]
    assert wake["depth"] == depth
    assert wake["seconds"] > 0
    phases = wake["phases"]
    assert phases["firstToken"] == wake["seconds"]
    assert phases["objects"] <= phases["headReady"] <= phases["firstToken"], phases
    # The answer may arrive before the kubelet's next readiness probe, which runs every few seconds.
    ready = phases.get("workerReady", phases["workerScheduled"])
    assert phases["workerScheduled"] <= ready <= phases["engineStarted"], phases
    assert phases["engineStarted"] <= phases["firstToken"], phases


def test_requests_wake_service_that_sleeps_without_ray_cluster(
    kubernetes: Kubernetes, tiny: str, tiny_manifest: dict[str, Any]
) -> None:
    model = tiny_manifest["spec"]["models"][0]["name"]
    fall_asleep(kubernetes, tiny, "Cluster")
    eventually(lambda: workers(kubernetes, tiny), lambda observed: not observed, minutes=5)
    # Accelerators first: a worker that outlives the head waits a minute for its return.
    assert pods(kubernetes, tiny, "head"), "the head outlives the workers"
    eventually(lambda: kubernetes.names("rayservices,rayclusters"), lambda observed: not observed, minutes=5)
    assert kubernetes.condition(tiny, "Ready")["status"] == "True", "asleep is healthy"
    eventually(lambda: kubernetes.condition(tiny, "Active")["reason"], lambda observed: observed == "Asleep")
    base = base_url(kubernetes, tiny)
    with OpenAI(base_url=base, api_key="none", max_retries=0) as client:
        assert [each.id for each in client.models.list()] == [model], "a sleeping model is listed"
    assert phase(kubernetes, tiny) == "Asleep", "to list models is not to use them"

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(ask, base, model, stream=number % 2 == 0) for number in range(4)]
        assert all(answer.result() for answer in answers)
    measured(kubernetes, tiny, "Cluster")
    assert workers(kubernetes, tiny)
    # Events are posted after the status that opens the gate.
    eventually(
        lambda: {event["reason"] for event in (kubernetes.get("events") or {})["items"]},
        lambda reasons: {"Asleep", "Waking", "Awake"} <= reasons,
    )


def test_no_request_is_lost_during_sleep_and_wake_transitions(
    kubernetes: Kubernetes, tiny: str, tiny_manifest: dict[str, Any]
) -> None:
    """At least 1,000 requests sent through every transition: none is lost, and none reaches the model twice.

    They use few connections, all of which survive the sleep.
    """
    model = tiny_manifest["spec"]["models"][0]["name"]
    kubernetes.patch(tiny, {"spec": {"sleep": {"afterIdle": "4s", "depth": "Workers"}}})
    tally = asyncio.run(through_every_transition(kubernetes, tiny, base_url(kubernetes, tiny), model, STORM))
    print(
        f"storm: {tally.sent} sent, {len(tally.lost)} lost, {tally.connections} connections, "
        f"{tally.at_replicas} at replicas, {tally.waves}, "
        f"slowest {tally.slowest:.1f} s, {tally.phases}"
    )
    assert tally.sent >= STORM
    assert not tally.lost, tally.lost[:5]
    assert not tally.wrong, tally.wrong[:5]
    assert tally.answered == tally.sent
    # Answers do not show this: a request that is forwarded twice is still answered once.
    assert not tally.never_there, tally.never_there[:5]
    assert not tally.there_twice, tally.there_twice[:5]
    assert sum(tally.reached.values()) == tally.sent
    assert tally.at_replicas > tally.sent // 2, "the proxy is the backup"
    assert tally.connections <= AT_ONCE, "no connection was closed during the storm"
    assert {"Awake", "Draining", "Asleep", "Waking"} <= {phase for phase, _ in tally.waves}
    assert tally.turned_round, tally.phases
    measured(kubernetes, tiny, "Workers")
