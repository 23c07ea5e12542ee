"""An operator that may not read nodes: it reports that, and continues without the fit check."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import ControlPlane
from quickstart.target import NAMESPACE
from tests import installed
from tests.api.admin import Admin
from tests.api.operator_process import PLAYED_OPERATOR, OperatorProcess
from tests.gpu.looks import GPU, big, node_of, placed, pods, read_message, service, small

pytestmark = pytest.mark.xdist_group("gpu")


def rights_without_nodes() -> str:
    """Return the operator's rights, without the one to read nodes."""
    rights = installed.rights()
    [rules] = [
        each["rules"]
        for each in rights
        if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", "daybreak")
    ]
    [about_nodes] = [rule for rule in rules if "nodes" in rule["resources"]]
    rules.remove(about_nodes)
    return installed.listed(rights)


@pytest.fixture(params=["without the right", "of one namespace"])
def blind(
    request: pytest.FixtureRequest, plane: ControlPlane, admin: Admin, tmp_path: Path
) -> Iterator[OperatorProcess]:
    """Yield an operator that cannot read nodes: it lacks the right, or watches one namespace only."""
    kubeconfig, settings = plane.kubeconfig, {"OPERATOR_NAMESPACE": NAMESPACE}
    if request.param == "without the right":
        plane.apply(rights_without_nodes())
        kubeconfig = tmp_path / "kubeconfig"
        user = f"system:serviceaccount:{NAMESPACE}:daybreak"
        plane.write_kubeconfig(
            kubeconfig, user, ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"]
        )
    else:
        settings = {"NAMESPACE": admin.namespace, "OPERATOR_NAMESPACE": admin.namespace}
    log = tmp_path / "log"
    with OperatorProcess(
        kubeconfig, log, program=PLAYED_OPERATOR, PLAYED_ANSWERS=str(tmp_path), **settings
    ) as process:
        yield process
    assert not process.errors, process.errors


@pytest.mark.usefixtures("serve_by_pods")
def test_operator_without_node_access_continues_without_fit_check(
    admin: Admin, blind: OperatorProcess
) -> None:
    admin.create(service("fits", small()))
    admin.create(service("never", big()))
    for name in ("fits", "never"):
        read_message(
            admin, name, "Schedulable", "Unknown", "the operator may not read nodes", reason="NodesUnknown"
        )
    placed(admin, "fits", 1)
    # The scheduler reports afterward what the fit check would have reported before.
    read_message(admin, "never", "Ready", "False", f"Insufficient {GPU}", reason="Unschedulable")
    [waiting] = pods(admin, "never")
    assert not node_of(waiting)
