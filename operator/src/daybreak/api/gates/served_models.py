"""Models that a workload behind a gateway serves, read from its manifest."""

from collections.abc import Iterator

from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, text
from daybreak.api.gates.protocol import Protocol


def protocol(workload: Manifest) -> str:
    """Return a workload's protocol, or an empty text if it is the OpenAI API or unknown."""
    message = text(at(workload, "status", "gate").get("protocol")) or text(
        at(workload, "spec").get("protocol")
    )
    return "" if message == Protocol.OPENAI else message


def of_spec(spec: Manifest) -> list[str]:
    """Return the names of models in a spec.

    The spec has one model, as in a ModelServer, or a list of names or objects.
    """
    called = (text(each) or text(mapping(each).get("name")) for each in _models(spec))
    return [name for name in called if name]


def of_gate(entry: Manifest) -> list[str]:
    """Return the request names of a model in `status.gate.models`: its own and its adapters'."""
    adapters = entry.get("adapters")
    names = (entry.get("name"), *(adapters if isinstance(adapters, list) else ()))
    return [text(name) for name in names if text(name)]


def served(workload: Manifest) -> list[str]:
    """Return every name that requests to a workload may use.

    These are the current names, those that a change will bring when it has reached the pods, and LoRA
    adapters. The list is empty if the workload does not use the OpenAI API, because its requests name no
    model.
    """
    if protocol(workload):
        return []
    spec = at(workload, "spec")
    found = [*of_spec(spec), *_adapters(spec)]
    for gate in mappings(at(workload, "status", "gate").get("models")):
        found += of_gate(gate)
    return list(dict.fromkeys(found))


def _models(spec: Manifest) -> tuple[object, ...]:
    several = spec.get("models")
    return (spec.get("model"), *(several if isinstance(several, list) else ()))


def _adapters(spec: Manifest) -> Iterator[str]:
    for model in _models(spec):
        yield from (text(each.get("name")) for each in mappings(at(model, "lora").get("adapters")))
