"""Which models a workload behind a gateway serves, as its manifest says it."""

from collections.abc import Iterator

from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, text
from daybreak.api.gates.protocol import Protocol


def protocol(workload: Manifest) -> str:
    """What a workload speaks that does not speak OpenAI's API; empty: it does, or nothing is said yet."""
    said = text(at(workload, "status", "gate").get("protocol")) or text(at(workload, "spec").get("protocol"))
    return "" if said == Protocol.OPENAI else said


def of_spec(spec: Manifest) -> list[str]:
    """The names of models in a spec: the one of a ModelServer, or several, alone or with more about each."""
    called = (text(each) or text(mapping(each).get("name")) for each in _models(spec))
    return [name for name in called if name]


def of_gate(entry: Manifest) -> list[str]:
    """The names by which a model of `status.gate.models` is asked: its own, and those of its adapters."""
    adapters = entry.get("adapters")
    names = (entry.get("name"), *(adapters if isinstance(adapters, list) else ()))
    return [text(name) for name in names if text(name)]


def served(workload: Manifest) -> list[str]:
    """Every name by which a model of a workload can be asked, now or as soon as its change has reached the
    pods: LoRA adapters are among them. None where it does not speak OpenAI's API: requests name no model.
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
