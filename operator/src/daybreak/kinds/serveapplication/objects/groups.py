"""Numbers of pods of an application's worker groups: those of its deployments, and those of its LLMs."""

from collections.abc import Mapping

from daybreak.api.common import names
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.ray.pods.workers import bounds


def fewest_pods(application: ServeApplication) -> Mapping[str, int]:
    """Return the minimum number of pods of each group while the application is awake, by group name."""
    return {name: fewest for name, (fewest, _) in _bounds(application).items()}


def most_pods(application: ServeApplication) -> Mapping[str, int]:
    """Return the maximum number of pods of each group, by group name."""
    return {name: most for name, (_, most) in _bounds(application).items()}


def _bounds(application: ServeApplication) -> Mapping[str, tuple[int, int]]:
    found = {group.name: (group.fewest, group.most) for group in application.groups}
    for model in application.spec.llms:
        found[names.worker_group(model.name)] = bounds(application.workload, model)
    return found
