"""docs/local.md: its commands give pods the images that it builds and loads."""

import re
import shlex

import yaml

from cluster.images import tiny_model
from daybreak import versions
from daybreak.api.llmservice.definition import LLMService
from daybreak.assembly import WORKLOADS
from daybreak.gateways.objects import gateway
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.settings import Settings
from tests.chart.rendered import environment, operator_pod
from tests.chart.tools import ROOT, Helm, Manifest

PAGE = (ROOT / "docs" / "local.md").read_text()
LOADERS = ("kind load docker-image", "k3d image import", "minikube image load")


def commands(beginning: str) -> list[list[str]]:
    """Return the page's commands with that prefix, split as a shell does."""
    lines = [line.strip() for line in PAGE.replace("\\\n", " ").splitlines() if line.startswith("    ")]
    return [shlex.split(line) for line in lines if line.startswith(f"{beginning} ")]


def values(command: list[str]) -> list[str]:
    """Return the values that a command of Helm sets."""
    return [part for at, word in enumerate(command) if word == "--set" for part in ("--set", command[at + 1])]


def images(objects: list[Manifest]) -> set[str]:
    """Return every image of any pod in the value, at any depth."""
    return set(re.findall(r"\bimage: (\S+)", yaml.safe_dump(objects, width=1_000_000)))


def loaded() -> set[str]:
    """Return the images that are loaded into the cluster."""
    each = [set(command[3:]) for loader in LOADERS for command in commands(loader)]
    assert len(each) == len(LOADERS)
    assert all(found == each[0] for found in each), "each kind of cluster gets the same"
    return each[0]


def test_loaded_images_are_built_by_documented_commands() -> None:
    builds = commands("docker build")
    built = [command[command.index("-t") + 1] for command in builds]
    files = [command[command.index("-f") + 1] for command in builds]
    assert loaded() <= set(built)
    assert all((ROOT / file).is_file() for file in files if file != "-")
    assert all((ROOT / command[-1]).is_dir() for command in builds if "<<END" not in command)
    # The last step consists of its additions to the previous one.
    last = re.search(r"<<'END'\n(.*?)\n {4}END\n", PAGE, re.DOTALL)
    assert last
    steps = [line.split() for line in last[1].splitlines()]
    assert steps[0] == ["FROM", built[-2]]
    assert (ROOT / builds[-1][-2] / steps[2][1]).samefile(tiny_model.__file__)
    sample = yaml.safe_load((ROOT / "manifests" / "samples" / "tiny-cpu.yaml").read_text())
    assert sample["spec"]["models"][0]["source"] == f"file://{steps[3][-1]}"


def test_pods_use_loaded_images(helm: Helm) -> None:
    (command,) = commands("helm upgrade --install daybreak")
    rendered = helm.template(*values(command), namespace=command[command.index("--namespace") + 1])
    (operator,) = operator_pod(rendered)["containers"]
    platform = Settings.from_environment(environment(rendered)).platform
    manifest = yaml.safe_load((ROOT / "manifests" / "samples" / "tiny-cpu.yaml").read_text())
    manifest["metadata"] |= {"namespace": "default", "uid": "0-0"}
    service = LLMService.from_manifest(manifest)
    ray = desired(service, platform, f"{service.name}-abcde", 20000, unfilled=[])
    gateways = gateway("default", WORKLOADS, platform)
    assert {operator["image"]} | images(ray) | images(gateways) == loaded()
    assert images(ray) == {platform.ray_cpu_image}
    assert operator["imagePullPolicy"] == "IfNotPresent"
    # The policy lets no other image be a gateway's.
    (policy,) = [
        each
        for each in rendered
        if each["kind"] == "ValidatingAdmissionPolicy" and platform.gateway_image in yaml.safe_dump(each)
    ]
    assert f'"{platform.gateway_image}"' in policy["spec"]["variables"][0]["expression"]


def test_documented_kuberay_version_equals_tested_version() -> None:
    (command,) = commands("helm upgrade --install kuberay-operator")
    assert command[command.index("--version") + 1] == versions.KUBERAY
    assert command[command.index("--namespace") + 1] == "kuberay-system"


def test_image_tags_equal_version_of_daybreak() -> None:
    assert set(re.findall(r"daybreak-[\w-]+:([\w.]+)", PAGE)) == {versions.DAYBREAK}


def test_documented_sleep_patch_is_valid() -> None:
    (patch,) = commands("kubectl patch llm tiny")
    manifest = yaml.safe_load((ROOT / "manifests" / "samples" / "tiny-cpu.yaml").read_text())
    manifest["metadata"] |= {"namespace": "default", "uid": "0-0"}
    manifest["spec"] |= yaml.safe_load(patch[patch.index("-p") + 1])["spec"]
    assert LLMService.from_manifest(manifest).spec.sleep is not None
