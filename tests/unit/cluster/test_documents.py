"""Configurations and images that the program writes."""

import hashlib
import ipaddress
import json
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from cluster import paths
from cluster.addons import coredns_manifests, corefile
from cluster.control_plane import commands
from cluster.control_plane.certs import Authority
from cluster.control_plane.fake_nodes import FakeNode, manifests
from cluster.control_plane.kubeconfig import write as write_kubeconfig
from cluster.images.static_image import StaticImage
from cluster.node import containerd, kubelet, network
from cluster.status import pod_rows, size, table
from cluster.tools.files import write as write_file


def test_address_ranges_are_inside_cluster_range_and_do_not_overlap() -> None:
    everything = ipaddress.ip_network(network.ALL_RANGES)
    pods, services = ipaddress.ip_network(network.POD_RANGE), ipaddress.ip_network(commands.SERVICE_RANGE)
    own = ipaddress.ip_address(network.NODE_ADDRESS)
    assert pods.subnet_of(everything)  # type: ignore[arg-type]
    assert services.subnet_of(everything)  # type: ignore[arg-type]
    assert own in everything
    assert not pods.overlaps(services)
    assert own not in pods
    assert own not in services
    assert ipaddress.ip_address(commands.API_SERVICE) == services[1]
    assert ipaddress.ip_address(kubelet.DNS_ADDRESS) in services


@pytest.mark.parametrize("restricted", [True, False])
def test_containerd_paths_are_inside_daybreak_folders(restricted: bool) -> None:
    config = tomllib.loads(containerd.config(restrict_oom_score=restricted))
    plugins = config["plugins"]
    for value in (
        config["root"],
        config["state"],
        plugins["io.containerd.server.v1.grpc"]["address"],
        plugins["io.containerd.server.v1.ttrpc"]["address"],
        plugins["io.containerd.shim.v1.manager"]["socket_dir"],
        plugins["io.containerd.internal.v1.opt"]["path"],
        plugins["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]["runc"]["options"]["Root"],
    ):
        assert Path(value).is_relative_to(paths.DAYBREAK) or Path(value).is_relative_to(paths.RUN), value
    assert plugins["io.containerd.cri.v1.runtime"]["restrict_oom_score_adj"] is restricted
    # containerd rejects a longer folder for the sockets of its shims.
    assert len(str(paths.SHIM_SOCKETS)) <= 42


def test_run_directory_differs_per_checkout_and_fits_socket_limit() -> None:
    assert paths.run_directory(Path("/a")) != paths.run_directory(Path("/b"))
    assert len(str(paths.run_directory(Path("/" + "long/" * 60)) / "containerd.sock.ttrpc")) < 108


@pytest.mark.parametrize("full_rights", [True, False])
def test_kubelet_enables_user_namespace_gate_without_full_rights(full_rights: bool) -> None:
    a = Path("/a")
    config = json.loads(kubelet.kubelet_config(a, a, a, a, full_rights=full_rights))
    assert config.get("featureGates", {}).get("KubeletInUserNamespace", False) is not full_rights
    assert config["imageGCHighThresholdPercent"] == 100
    assert config["authentication"]["anonymous"] == {"enabled": False}


def test_coredns_forwards_external_names_only_with_upstream() -> None:
    assert "forward ." in corefile(upstream=True)
    assert "forward" not in corefile(upstream=False)


def test_coredns_pod_listens_on_target_port_of_its_service() -> None:
    objects = {item["kind"]: item for item in yaml.safe_load_all(coredns_manifests(upstream=False))}
    service, pod = objects["Service"]["spec"], objects["Deployment"]["spec"]["template"]
    assert service["clusterIP"] == kubelet.DNS_ADDRESS
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    listening = {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in service["ports"]} == listening == {5353}
    assert objects["ConfigMap"]["data"]["Corefile"].startswith(".:5353 {")


def test_fake_nodes_have_the_gpus_labels_and_taints_that_were_asked_for() -> None:
    nodes = [FakeNode("a", labels={"x": "y"}), FakeNode("b", gpus=0, taints=())]
    plain, none = json.loads(manifests(nodes))["items"]
    assert plain["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert plain["metadata"]["labels"]["x"] == "y"
    assert plain["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert "nvidia.com/gpu" not in none["status"]["allocatable"]
    assert none["spec"]["taints"] == []


def test_static_image_contains_program_and_is_reproducible(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF program")
    image = StaticImage("daybreak.local/x:1", program, "/bin/x")
    digest = image.write(tmp_path / "one.tar", "x86_64")
    assert image.write(tmp_path / "two.tar", "x86_64") == digest
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as tar:
        content = {name: handle.read() for name in tar.getnames() if (handle := tar.extractfile(name))}
    for name in content:
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(content[name]).hexdigest() == Path(name).name
    (entry,) = json.loads(content["index.json"])["manifests"]
    assert entry["digest"] == digest
    assert entry["annotations"] == {"io.containerd.image.name": "daybreak.local/x:1"}
    manifest = json.loads(content["blobs/" + digest.replace(":", "/")])
    config = json.loads(content["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    assert config["architecture"] == "amd64"
    assert config["config"]["Entrypoint"] == ["/bin/x"]
    assert config["config"]["User"] == "65532:65532"
    (layer,) = manifest["layers"]
    with (tmp_path / "layer.tar").open("wb") as handle:
        handle.write(content["blobs/" + layer["digest"].replace(":", "/")])
    with tarfile.open(tmp_path / "layer.tar") as tar:
        member = tar.getmember("bin/x")
        extracted = tar.extractfile(member)
        assert extracted is not None
        assert (member.mode, extracted.read()) == (0o755, b"\x7fELF program")


def test_an_image_changes_with_its_program(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"one")
    image = StaticImage("daybreak.local/x:1", program, "/x")
    first = image.write(tmp_path / "image.tar", "x86_64")
    program.write_bytes(b"two")
    assert image.write(tmp_path / "image.tar", "x86_64") != first


def test_kubeconfig_needs_no_other_file_and_is_private(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki", "authority")
    file, server = tmp_path / "kubeconfig", "https://192.0.2.1:6443"
    write_kubeconfig(file, server, authority.pair.certificate, "me", authority.issue("me", "me"))
    content = yaml.safe_load(file.read_text())
    assert content["clusters"][0]["cluster"]["server"] == server
    assert str(tmp_path) not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_an_unchanged_file_is_not_written_again(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "config"
    first = write_file(file, "one")
    before = file.stat()
    assert write_file(file, "one") == first
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert file.stat().st_ino == before.st_ino
    assert write_file(file, "two") != first
    assert file.read_text() == "two"


def test_pod_row_shows_waiting_reason() -> None:
    pod = {
        "metadata": {"namespace": "n", "name": "p", "uid": "u"},
        "spec": {"containers": [{}, {}]},
        "status": {
            "phase": "Pending",
            "containerStatuses": [
                {"ready": True, "restartCount": 2, "state": {"running": {}}},
                {"ready": False, "restartCount": 1, "state": {"waiting": {"reason": "ErrImagePull"}}},
            ],
        },
    }
    assert pod_rows({"items": [pod]}, {"u": 3 * 2**20}) == [["n/p", "ErrImagePull", "1/2", "3", "3 MiB"]]
    assert pod_rows({"items": [{**pod, "status": {}}]}, {}) == [["n/p", "Unknown", "0/2", "0", ""]]


def test_table_columns_are_aligned() -> None:
    assert table(("A", "LONG"), [("value", "x")]) == ["A      LONG", "value  x"]
    assert size(5 * 2**30) == "5.0 GiB"
