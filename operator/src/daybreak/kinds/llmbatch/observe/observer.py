"""Gathering, once, everything that one reconcile of a batch decides on."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.custom_object import InvalidSpec
from daybreak.api.llmbatch import validation
from daybreak.api.llmbatch.definition import LLM_BATCHES, LLMBatch
from daybreak.controller.node_watch import NodeWatch
from daybreak.controller.turn_watch import TurnWatch, Workload
from daybreak.kinds.llmbatch.observe.claims import claims
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.kube.cache import Cache, Key
from daybreak.kube.resources import PODS, RAY_JOBS
from daybreak.kube.watches import Watches
from daybreak.scheduling.turns import NO_MATTER


class Observer:
    """Reads the cache; asks the API server nothing.

    Args:
        cache: What is known of the cluster.
        watches: Fill the cache.
        nodes: Knows the nodes.
        turns: Knows whose turn it is among all workloads.
    """

    def __init__(self, cache: Cache, watches: Watches, nodes: NodeWatch, turns: TurnWatch) -> None:
        self._cache = cache
        self._watches = watches
        self._nodes = nodes
        self._turns = turns

    def observe(self, key: Key) -> Observed | None:
        """What is seen of a batch, or None when there is none."""
        manifest = self._cache.get(LLM_BATCHES, key)
        if manifest is None:
            self._turns.forget(Workload(LLM_BATCHES.kind, key))
            return None
        batch, problems = read(manifest)
        return self.again(
            key,
            Observed(manifest, batch, problems, self._watches.kuberay_installed, datetime.now(UTC)),
        )

    def with_turn(self, key: Key, seen: Observed) -> Observed:
        """What is seen, and whose turn it is now that the batch's progress is known."""
        found = self._turns.turns(
            Workload(LLM_BATCHES.kind, key), claims(seen, self._nodes.nodes()), seen.now
        )
        return replace(seen, turn=next(iter(found.values()), NO_MATTER))

    def again(self, key: Key, seen: Observed) -> Observed:
        """The objects of now, with the spec of that observation."""
        return replace(
            seen,
            now=datetime.now(UTC),
            ray_job=self._cache.get(RAY_JOBS, Key(key.namespace, names.ray_job(key.name))),
            pods=tuple(self._cache.of_service(PODS, Key(key.namespace, names.of_batch(key.name)))),
        )


def read(manifest: Mapping[str, Any]) -> tuple[LLMBatch | None, tuple[str, ...]]:
    """A batch from its manifest, and what is wrong with it."""
    try:
        batch = LLMBatch.from_manifest(manifest)
    except InvalidSpec as error:
        return None, (str(error),)
    return batch, validation.problems(batch)
