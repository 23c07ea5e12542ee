"""`make up` and `make down`: their options, and the order of their steps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cluster import with_images
from cluster.errors import ClusterError
from cluster.images import catalog
from cluster.tools.report import Report
from daybreak.api.common import names
from daybreak.manifests.resources import OF_GATEWAYS
from quickstart import __main__ as program
from quickstart import install, removal
from quickstart.install import chart_image
from quickstart.target import Target


@pytest.mark.parametrize(
    ("reference", "values"),
    [
        ("daybreak:0.1.0", ["image.repository=daybreak", "image.tag=0.1.0"]),
        ("registry:5000/a/b:v1", ["image.repository=registry:5000/a/b", "image.tag=v1"]),
        ("registry:5000/a@sha256:12", ["image.repository=registry:5000/a", "image.digest=sha256:12"]),
    ],
)
def test_image_reference_is_split_into_chart_values(reference: str, values: list[str]) -> None:
    assert chart_image(reference)[1::2] == values


@pytest.mark.parametrize("reference", ["daybreak", "registry:5000/daybreak"])
def test_image_without_tag_is_rejected(reference: str) -> None:
    with pytest.raises(ClusterError, match=f"{reference}:TAG"):
        chart_image(reference)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the steps of `make up` in the order in which they start."""
    begun: list[str] = []

    def cluster(report: Report, then: Callable[[], None]) -> None:
        begun.append("cluster")
        then()
        begun.append("all images")

    monkeypatch.setattr(with_images, "up", cluster)
    monkeypatch.setattr(catalog, "references", dict)
    for name in ("own_images", "kuberay", "daybreak", "sample", "talk"):
        monkeypatch.setattr(install, name, lambda *_, name=name: begun.append(name))
    return begun


def test_daybreak_is_installed_while_the_last_images_are_built(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    program.up(Report())
    assert steps == ["cluster", "kuberay", "daybreak", "all images", "sample", "talk"]


def test_up_with_kubeconfig_installs_on_existing_cluster(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").touch()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    program.up(Report())
    assert steps == ["own_images", "kuberay", "daybreak", "sample", "talk"]


@dataclass(frozen=True)
class Recorded(Target):
    """A cluster that only records its calls."""

    kubeconfig: Path = Path("none")
    embedded: bool = False
    others: str = ""
    crd: bool = True
    operator: bool = True
    reported: list[str] = field(default_factory=list)

    def _run(self, tool: str, *arguments: str, stdin: str | None = None) -> str:
        self.reported.append(f"{tool} {arguments[0]}")
        if arguments[0] == "wait" and not self.operator:
            raise ClusterError("kubectl wait failed: timed out")
        answers = {"api-versions": "daybreak.dev/v1alpha1\n" if self.crd else "v1\n", "get": self.others}
        return answers.get(arguments[0], "")


def test_operator_is_uninstalled_after_gateway_removal() -> None:
    target = Recorded()
    removal.remove(target, Report())
    assert target.reported == [
        "kubectl api-versions",
        "kubectl delete",
        "kubectl get",
        "kubectl wait",
        "helm uninstall",
    ]


def test_removal_does_not_wait_for_gateway_that_other_services_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = Recorded(others="default/mine\nteam/theirs\n")
    removal.remove(target, Report())
    assert target.reported[-2:] == ["kubectl get", "helm uninstall"]
    assert "kept: default/mine, team/theirs: " in capsys.readouterr().out


def test_removal_waits_for_gateway_despite_services_in_other_namespaces() -> None:
    target = Recorded(others="team/theirs\n")
    removal.remove(target, Report())
    assert target.reported[-2:] == ["kubectl wait", "helm uninstall"]


def test_removal_skips_gateway_without_crd() -> None:
    target = Recorded(crd=False)
    removal.remove(target, Report())
    assert target.reported == ["kubectl api-versions", "helm uninstall"]


def test_remaining_gateway_is_reported_with_delete_command() -> None:
    target = Recorded(operator=False)
    with pytest.raises(ClusterError, match=r"timed out; .*kubectl delete -n default deployment,.* -l app\."):
        removal.remove(target, Report())
    assert "helm uninstall" not in target.reported


def test_removal_covers_gateway_objects_of_operator() -> None:
    assert f"{names.NAME_LABEL}={names.gateway_labels()[names.NAME_LABEL]}" == removal.GATEWAY_LABEL
    plurals = {resource.plural for resource in OF_GATEWAYS}
    singulars = set(removal.GATEWAY_KINDS.split(","))
    assert {f"{name[:-1]}ies" if name.endswith("cy") else f"{name}s" for name in singulars} == plurals
    # The removal waits only for Deployments, because the operator deletes them last.
    assert OF_GATEWAYS[-1].plural == "deployments"
