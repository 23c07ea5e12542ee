"""The JSON patch that cancels a second Ray cluster."""

from daybreak.kube.writing.upgrades import patch


def test_patch_cancels_only_named_cluster_at_read_version() -> None:
    ray_service = {"metadata": {"resourceVersion": "42"}}
    version, name, change = patch(ray_service, "chat-bbbbb")
    assert (version["op"], version["value"]) == ("test", "42")
    assert (name["op"], name["value"]) == ("test", "chat-bbbbb")
    assert change == {"op": "replace", "path": "/status/pendingServiceStatus", "value": {}}
