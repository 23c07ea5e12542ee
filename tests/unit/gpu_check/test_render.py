"""Manifests that `make gpu-check` renders from a sample."""

from pathlib import Path

import pytest
import yaml

from bench.gpu.engine import flags
from bench.gpu.gateway import servers
from bench.gpu.models import make
from bench.gpu.render import IMAGES, Wish, image_environment, render, rendered_samples
from daybreak.api.common import names
from daybreak.gateway.desired.gates import Ports, desired_state

CACHE = Path("/cache/gpu-check")


def test_rendered_samples_include_gpu_count_of_each_sample() -> None:
    assert rendered_samples()["llama-70b-tensor-4"] == 4
    assert rendered_samples()["tiny-cpu"] == 0


def test_worker_ray_start_has_resources_of_its_pod() -> None:
    rendered = render(Wish("llama-8b-one-gpu", Path("/models/8b"), dummy=True), port=1234, cache=CACHE)
    start = rendered.worker.ray_start
    assert start[:3] == ("--num-cpus=2", "--num-gpus=1", f"--memory={24 * 2**30}")
    assert start[4] == '--resources={"model-llama-3-1-8b-7b6335": 1.0}'
    assert rendered.head.ray_start[:2] == ("--num-cpus=0", "--num-gpus=0")
    assert '"daybreak-head": 1.0' in rendered.head.ray_start[4]
    assert rendered.worker.environment["XDG_CACHE_HOME"] == "/cache/gpu-check"


def test_changes_to_sample_are_rendered_and_reported() -> None:
    wish = Wish("llama-8b-one-gpu", Path("/models/8b"), dummy=True, tensor=2, more_args={"max_num_seqs": 256})
    rendered = render(wish, port=1234, cache=CACHE)
    assert rendered.source == "/models/8b"
    assert rendered.engine_args["load_format"] == "dummy"
    assert rendered.engine_args["max_model_len"] == 8192, "the sample's own"
    assert rendered.engine_args["tensor_parallel_size"] == 2
    group = rendered.config["applications"][0]["args"]["llm_configs"][0]["placement_group_config"]
    assert group["strategy"] == "STRICT_PACK"
    assert rendered.worker.ray_start[1] == "--num-gpus=2"
    message = "; ".join(rendered.changes)
    for word in ("file://8b", "no token", "no revision", "load_format=dummy", "tensor 2", "head only"):
        assert word in message


def test_asleep_deployment_has_zero_initial_replicas() -> None:
    rendered = render(Wish("tiny-cpu", Path("/models/tiny")), port=1234, cache=CACHE, asleep=True)
    assert rendered.deployment["name"] == "LLMServer:tiny"
    assert rendered.deployment["autoscaling_config"]["initial_replicas"] == 0
    assert rendered.look_back_seconds == rendered.deployment["autoscaling_config"]["look_back_period_s"] > 0


@pytest.mark.parametrize("image", ["ray", "ray-cpu"])
def test_environment_has_variables_of_image_without_nvidia_ones(image: str) -> None:
    found = image_environment(image, Path("/elsewhere"), CACHE, {"PATH": "/bin"})
    assert found["VLLM_NO_USAGE_STATS"] == "1"
    assert found["PATH"].endswith(":/bin")
    assert "/opt/ray" not in " ".join(found.values())
    assert "CUDA_HOME" in found or image == "ray-cpu"
    assert not [name for name in found if name.startswith("NVIDIA_")]
    assert (IMAGES / image / "Dockerfile").exists()


def test_gateway_has_same_servers_as_in_a_cluster() -> None:
    gate = {"name": "m", "state": "Open"}
    manifest = {
        "metadata": {"name": "s", "uid": "u"},
        "spec": {"models": [{"name": "m", "serve": {"maxOngoingRequests": 64}}]},
        "status": {"gate": {"port": 20000, "backends": [{"cluster": "c"}], "models": [gate]}},
    }
    labels = {"ray.io/cluster": "c"}
    status = {"podIP": "127.0.0.1", "phase": "Running"}
    head = {"metadata": {"labels": {**labels, "ray.io/node-type": "head"}}, "status": status}
    more = {"ray.io/node-type": "worker", names.MODEL_LABEL: "m"}
    worker = {"metadata": {"labels": labels | more}, "status": status}
    found = desired_state(manifest, [head, worker], Ports(serve=1, replica=2))
    assert found is not None
    assert set(found.gates[0].servers) == set(servers(1, [2], 64))
    assert found.gates[0].slot.replicas_listen


def test_engine_arguments_become_command_line_flags() -> None:
    arguments = {"max_num_seqs": 8, "enforce_eager": True, "enable_prefix_caching": False}
    assert flags(arguments) == ["--max-num-seqs", "8", "--enforce-eager", "--no-enable-prefix-caching"]
    assert flags({"allowed_media_domains": ["a", "b"]}) == ["--allowed-media-domains", "a", "b"]
    assert flags({"compilation_config": {"level": 3}}) == ["--compilation-config", '{"level": 3}']


def test_generated_8b_model_has_word_for_each_sampled_token(tmp_path: Path) -> None:
    place = make("8b", tmp_path)
    assert make("8b", tmp_path) == place
    config = yaml.safe_load((place / "config.json").read_text())
    assert (config["num_hidden_layers"], config["hidden_size"], config["vocab_size"]) == (32, 4096, 128256)
    assert not list(place.glob("*.safetensors"))
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == 128256
    assert all(tokenizer.decode([number]) for number in (2048, 70_000, 128_255))
