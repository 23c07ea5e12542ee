"""The installation pages name what is there: files, samples, values, versions."""

import re

import pytest
import yaml

from daybreak import versions
from daybreak.manifests.resources import OWNED
from scripts.docs import values_table
from tests.chart.tools import ARGO_CD, ROOT

PAGES = ("README.md", "docs/install.md", "charts/daybreak/README.md", "manifests/argocd/README.md")
EVERY_PAGE = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "charts/**/*.md", "manifests/**/*.md", "e2e/**/*.md")
    for path in ROOT.glob(pattern)
)


def anchors(text: str) -> set[str]:
    """Return the anchors that a link may name in a page: its headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def links(page: str) -> list[tuple[str, str]]:
    """Return target and anchor of each link within the repository. Code has no links."""
    text = re.sub(r"`[^`\n]*`", "", (ROOT / page).read_text())
    found = re.findall(r"\]\((?!http)([^)#]*)(#([^)]+))?\)", text)
    return [(target, anchor) for target, _, anchor in found]


def services(page: str) -> set[str]:
    """Return the names of the LLMServices in the commands of a page."""
    return set(re.findall(r"\bllm/([\w-]+)", (ROOT / page).read_text()))


def installations(page: str) -> list[str]:
    """Return the commands of a page that install the chart."""
    text = (ROOT / page).read_text().replace("\\\n", " ")
    return re.findall(r"^ {4}helm upgrade --install daybreak .*$", text, re.MULTILINE)


def test_pages_have_links_services_and_install_commands() -> None:
    """The tests of single pages check nothing on a page without a match."""
    assert any(target for page in EVERY_PAGE for target, _ in links(page))
    assert any(anchor for page in EVERY_PAGE for _, anchor in links(page))
    assert any(services(page) for page in PAGES)
    assert any(installations(page) for page in PAGES)


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_links_lead_to_files_and_headings(page: str) -> None:
    for target, anchor in links(page):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path.read_text()), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_files_named_in_page_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = set(re.findall(r"(?<![\w/.-])((?:manifests|charts|images|docs)/[\w./-]*[\w/])", text))
    assert named
    # KubeRay's own repository has paths of these forms as well.
    named = {path for path in named if f"ray-operator/{path}" not in text}
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("page", PAGES)
def test_services_named_in_page_exist_in_samples(page: str) -> None:
    files = (ROOT / "manifests" / "samples").glob("*.yaml")
    samples = [sample for path in files for sample in yaml.safe_load_all(path.read_text())]
    names = {sample["metadata"]["name"] for sample in samples if sample["kind"] == "LLMService"}
    assert services(page) <= names


def test_values_named_in_installation_page_exist_in_chart() -> None:
    text = (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(named) >= 10
    assert named <= {value.name for value in values_table.values()}


@pytest.mark.parametrize("page", PAGES)
def test_install_commands_set_all_required_images(page: str) -> None:
    """Required images of every installation: no image is published."""
    for command in installations(page):
        named = set(re.findall(r"--set ([\w.]+)=", command))
        assert named >= {"image.repository", "gateway.image", "rayImage"}


def test_versions_in_installation_page_equal_versions_of_code() -> None:
    text = (ROOT / "docs" / "install.md").read_text()
    assert set(re.findall(r"--version (\S+)", text)) == {versions.KUBERAY}
    assert set(re.findall(r"ref=v([\d.]+)", text)) == {versions.KUBERAY}
    assert set(re.findall(r"daybreak-(?:operator|ray):(\S+)", text)) == {versions.DAYBREAK}
    minor = ".".join(versions.KUBERAY_MINIMUM.split(".")[:2])
    assert f"Version {minor} or newer; {versions.KUBERAY} is what Daybreak is tested with" in text


def test_documented_argo_cd_major_version_is_tested() -> None:
    text = (ROOT / "docs" / "install.md").read_text()
    assert ARGO_CD.version.startswith("v3.")
    assert "Argo CD 3 " in text


def test_modules_of_the_architecture_exist() -> None:
    """Each is named by its path below the package, or below the folder that is spoken of."""
    there = [path.as_posix() for path in ROOT.rglob("*.py") if ".daybreak" not in path.parts]
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "docs" / "architecture.md").read_text()))
    assert len(named) > 20
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in there)] == []


def test_removal_names_every_kind() -> None:
    """A kind that is left keeps a gateway, and the wait for gateways would time out."""
    section = (ROOT / "docs" / "install.md").read_text().split("## Removal\n")[1]
    [deleted] = re.findall(r"kubectl delete ([\w,]+) --all --all-namespaces", section)
    crds = [yaml.safe_load(path.read_text()) for path in (ROOT / "charts/daybreak/files/crds").glob("*.yaml")]
    short = {crd["spec"]["names"].get("shortNames", [crd["spec"]["names"]["singular"]])[0] for crd in crds}
    assert set(deleted.split(",")) == short
    assert {crd["metadata"]["name"] for crd in crds} <= set(re.findall(r"[\w.]+", section))


def test_architecture_lists_every_object_of_a_service() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## Objects of an LLMService\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \|", section, re.MULTILINE)
    assert set(rows) - {"object"} == {kind.kind for kind in OWNED}
