"""Counts of a request storm across 1 → 0 → 1 on the real cluster

The storm sends at least 1,000 requests to the tiny sample in every state: awake, with a closing gate, asleep,
waking, and with an opening gate. The connections stay open all the time. Each answer is matched to its
request by the number in it. The access logs of the replicas and of Ray Serve's ingress show how often each
request reached the model's server. The end-to-end tests run the same storm.

The measurement needs the embedded cluster with Daybreak and the sample (`make up`).
"""

import argparse
import asyncio
from dataclasses import asdict
from pathlib import Path

import yaml

from bench import report
from cluster import paths
from quickstart import install
from quickstart.target import Target
from story.load.storm import AT_ONCE, through_every_transition
from story.objects.kubernetes import Kubernetes

REQUESTS = 1000

GOALS: dict[str, report.Goal] = {
    "sent": {"min": REQUESTS},
    "lost": {"max": 0},
    "answered_wrongly": {"max": 0},
    "reached_the_model_never": {"max": 0},
    "reached_the_model_twice": {"max": 0},
    "connections": {"max": AT_ONCE},
    "turned_round_while_draining": {"min": 1},
}


def main(requests: int = REQUESTS) -> None:
    """Measure and write `bench/results/storm.json`."""
    kubernetes = Kubernetes(Target(paths.KUBECONFIG, embedded=True))
    sample = yaml.safe_load(Path(install.SAMPLE).read_text())
    name, model = sample["metadata"]["name"], sample["spec"]["models"][0]["name"]
    kubernetes.apply(sample)
    kubernetes.wait_ready(name)
    kubernetes.patch(name, {"spec": {"sleep": {"afterIdle": "4s", "depth": "Workers"}}})
    service = kubernetes.get("service", name)
    assert service is not None  # noqa: S101 -- Ready says that it is there
    base = f"http://{service['spec']['clusterIP']}/v1"
    try:
        tally = asyncio.run(through_every_transition(kubernetes, name, base, model, requests))
    finally:
        kubernetes.patch(name, {"spec": {"sleep": None}})
    report.write(
        "storm",
        f"python -m bench.cluster.storm --requests {requests}",
        measures={
            "sent": tally.sent,
            "lost": len(tally.lost),
            "answered_wrongly": len(tally.wrong),
            "reached_the_model_never": len(tally.never_there),
            "reached_the_model_twice": len(tally.there_twice),
            "connections": tally.connections,
            "turned_round_while_draining": tally.turned_round,
            "slowest_seconds": tally.slowest,
        },
        goals=GOALS,
        runs=[{key: value for key, value in asdict(tally).items() if key != "reached"}],
        notes=f"At most {AT_ONCE} concurrent requests; every fourth is streamed. `connections` is the number "
        "of connections opened: clients keep them before, during and after the sleep. The access logs of the "
        "replicas and of Ray Serve's ingress show which requests reached the model, and how often, by the "
        "X-Request-Id of each. The slowest request waited for the whole wake.",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    main(**vars(parser.parse_args()))
