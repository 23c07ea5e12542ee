"""An operator that watches some namespaces serves those, each with its gateway, and no other."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import everything, tiny
from tests.api.objects.sleeper import GATEWAY
from tests.api.operator_process import OperatorProcess

Start = Callable[..., OperatorProcess]


@pytest.fixture
def second(admin: Admin) -> Admin:
    """Hands in a namespace that is watched and is not there yet."""
    return admin.within(f"{admin.namespace}-second")


@pytest.fixture
def third(admin: Admin) -> Admin:
    """Yield an `Admin` in a namespace that no operator watches."""
    name = f"{admin.namespace}-third"
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return admin.within(name)


def test_operator_serves_only_watched_namespaces(
    admin: Admin, second: Admin, third: Admin, alone: Start
) -> None:
    for each in (admin, third):
        each.create(tiny())
    with alone(NAMESPACE=f"{admin.namespace},{second.namespace}", **GATEWAY) as operator:
        eventually("the first one's objects", lambda: everything(admin))
        admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": second.namespace}})
        second.create(tiny())
        eventually("the second one's objects", lambda: everything(second))
        for each in (admin, second):
            eventually("its gateway", partial(each.get, "Deployment", names.GATEWAY))

        # Watches of each kind, in each of them: what is deleted is made again.
        for each in (admin, second):
            for kind, name in (("NetworkPolicy", "tiny-ray"), ("RayService", "tiny")):
                uid = each.get(kind, name)["metadata"]["uid"]
                each.delete(kind, name)
                eventually(f"{kind} made again", partial(_is_another, each, kind, name, uid))

        # One is emptied: the other one is left alone.
        gateway = second.get("Deployment", names.GATEWAY)["metadata"]["uid"]
        admin.delete("LLMService", "tiny")
        eventually("its gateway gone", lambda: admin.get("Deployment", names.GATEWAY) is None)
        time.sleep(2)
        assert second.get("Deployment", names.GATEWAY)["metadata"]["uid"] == gateway
        assert everything(second)

        assert "status" not in third.get("LLMService", "tiny")
        assert third.get("Service", "tiny") is None
        assert third.get("Deployment", names.GATEWAY) is None
        assert operator.metric("daybreak_api_requests_total", resource="nodes") == 0
        assert not operator.errors
    for each in (second, third):
        each.delete("LLMService", "tiny")
        each.delete("Namespace", each.namespace)


def _is_another(admin: Admin, kind: str, name: str, uid: str) -> bool:
    found = admin.get(kind, name)
    return bool(found) and found["metadata"]["uid"] != uid
