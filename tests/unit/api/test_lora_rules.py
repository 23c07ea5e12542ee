"""Problems of LoRA settings."""

from typing import Any

import pytest

from daybreak.api.llmservice import validation
from daybreak.api.schema.custom_object import InvalidSpec
from tests.unit.ray.services import model, service

ADAPTER = {"name": "a", "source": "s3://bucket/a"}


def problems(*models: dict[str, Any], **spec: Any) -> tuple[str, ...]:
    return validation.problems(service(*models, **spec))


def test_model_with_adapters_has_no_problems() -> None:
    args = {"max_cpu_loras": 8, "lora_dtype": "auto"}
    assert problems(model(lora={"adapters": [ADAPTER]}, engine={"args": args})) == ()
    assert problems(model(lora={})) == ()


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        (
            [ADAPTER],
            [ADAPTER],
            "spec.models[1].lora.adapters[0].name: a is the name of spec.models[0].lora.adapters[0]",
        ),
        (
            [{**ADAPTER, "name": "two"}],
            [],
            "spec.models[0].lora.adapters[0].name: two is the name of spec.models[1]",
        ),
        (
            [{**ADAPTER, "name": "one"}],
            [],
            "spec.models[0].lora.adapters[0].name: one is the name of spec.models[0]",
        ),
        (
            [ADAPTER, ADAPTER],
            [],
            "spec.models[0].lora.adapters[1].name: a is the name of spec.models[0].lora.adapters[0]",
        ),
    ],
)
def test_duplicate_adapter_name_is_rejected(first: list[Any], second: list[Any], path: str) -> None:
    found = problems(
        model(name="one", lora={"adapters": first}), model(name="two", lora={"adapters": second})
    )
    assert found == (f"{path} already; rename one",)


def test_more_than_128_models_and_adapters_are_rejected() -> None:
    def many(prefix: str) -> dict[str, Any]:
        adapters = [{"name": f"{prefix}-{number}", "source": "s3://bucket/a"} for number in range(64)]
        return model(name=prefix, lora={"adapters": adapters})

    assert problems(many("one")) == ()
    assert problems(many("one"), many("two")) == (
        "spec.models: 130 models and adapters are more than 128; use two services",
    )


def test_adapters_without_direct_ingress_are_rejected() -> None:
    found = problems(model(lora={"adapters": [ADAPTER]}), runtime={"directIngress": False})
    assert found == (
        "spec.models[0].lora: adapters are served by the replicas' own port; "
        "leave spec.runtime.directIngress at true",
    )


@pytest.mark.parametrize("path", ["/adapters", "/adapters/x"])
def test_mount_in_adapter_directory_is_rejected_if_model_has_lora(path: str) -> None:
    runtime = {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "volumeMounts": [{"name": "v", "mountPath": path}],
    }
    assert problems(model(lora={}), runtime=runtime) == (
        f"spec.runtime.volumeMounts: {path} is where adapters appear; use another",
    )
    assert problems(model(), runtime=runtime) == ()


def test_adapter_argument_without_lora_is_rejected() -> None:
    found = problems(model(engine={"args": {"fully_sharded_loras": True, "lora_dtype": "auto"}}))
    assert found == (
        "spec.models[0].engine.args.fully_sharded_loras: without effect, since the model has no lora",
    )


def test_fewer_cpu_loras_than_max_loaded_are_rejected() -> None:
    found = problems(model(lora={"maxLoaded": 8}, engine={"args": {"max_cpu_loras": 4}}))
    assert found == (
        "spec.models[0].engine.args.max_cpu_loras: 4 is less than lora.maxLoaded, which is 8; "
        "write as many at least",
    )


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        ({"maxRank": 12}, "maxRank"),
        ({"maxLoaded": 0}, "maxLoaded"),
        ({"adapters": [{"name": "a#b", "source": "s3://bucket/a"}]}, "name"),
        ({"adapters": [{"name": "a", "source": "ftp://x"}]}, "source"),
        ({"adapters": [{**ADAPTER, "revision": "main"}]}, "revision requires an hf:// source"),
        (
            {"adapters": [{**ADAPTER, "token": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            "token requires an hf:// source",
        ),
    ],
)
def test_invalid_lora_setting_is_rejected(lora: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec, match=message):
        service(model(lora=lora))


@pytest.mark.parametrize(("adapters", "refused"), [(1, False), (2, True), (3, True)])
def test_cpu_model_without_spare_adapter_place_is_rejected(adapters: int, refused: bool) -> None:
    lora = {"maxLoaded": 2, "adapters": [{**ADAPTER, "name": f"a{number}"} for number in range(adapters)]}
    found = problems(model(accelerator={"kind": "cpu"}, lora=lora))
    assert bool(found) is refused
    for problem in found:
        assert problem.startswith("spec.models[0].lora.maxLoaded: on the CPU")
        assert problem.endswith(f"write at least {adapters + 1}")
    assert problems(model(lora=lora)) == ()
