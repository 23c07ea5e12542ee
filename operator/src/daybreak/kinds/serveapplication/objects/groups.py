"""How many pods each worker group of an application has: those of its deployments, and those of its LLMs."""

from collections.abc import Mapping

from daybreak.api.common import names
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.ray.pods.workers import bounds


def fewest_pods(application: ServeApplication) -> Mapping[str, int]:
    """Fewest pods of each group while it is awake, by the group's name."""
    return {name: fewest for name, (fewest, _) in _bounds(application).items()}


def most_pods(application: ServeApplication) -> Mapping[str, int]:
    """Most pods of each group."""
    return {name: most for name, (_, most) in _bounds(application).items()}


def _bounds(application: ServeApplication) -> Mapping[str, tuple[int, int]]:
    found = {group.name: (group.fewest, group.most) for group in application.groups}
    for model in application.spec.llms:
        found[names.worker_group(model.name)] = bounds(application.workload, model)
    return found
