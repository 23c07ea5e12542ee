"""API keys in `healthChecks`: each key must exist in the workload."""

from typing import Any

import pytest

from daybreak.api.gates.access import Access
from daybreak.api.gates.health_check_rules import problems
from daybreak.api.gates.sleep import Sleep
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.validation import problems as problems_of
from tests.specs import manifest

SECRET = {"name": "keys", "key": "one"}


def read_message(keys: list[str], *api_keys: dict[str, Any]) -> list[str]:
    """Return the problems of these key names in a service that has these API keys."""
    sleep = Sleep.model_validate({"healthChecks": {"keys": keys}})
    access = Access.model_validate({"apiKeys": list(api_keys)}) if api_keys else None
    return list(problems(sleep, access))


def test_known_key_is_accepted() -> None:
    assert (
        read_message(["team", "keys/one"], {"name": "team", "secretRef": SECRET}, {"secretRef": SECRET}) == []
    )
    assert list(problems(None, None)) == []


@pytest.mark.parametrize(
    ("api_keys", "fix"),
    [
        ([], "name it there, or leave it out"),
        ([{"name": "team", "secretRef": SECRET}, {"secretRef": SECRET}], "use one of team, keys/one"),
    ],
)
def test_unknown_key_is_rejected_with_fix(api_keys: list[dict[str, Any]], fix: str) -> None:
    (problem,) = read_message(["monitor"], *api_keys)
    assert problem == f"spec.sleep.healthChecks.keys[0]: spec.access.apiKeys has no key monitor; {fix}"


def test_service_validation_reports_unknown_health_check_key() -> None:
    service = LLMService.from_manifest(manifest(sleep={"healthChecks": {"keys": ["monitor"]}}))
    assert any(problem.startswith("spec.sleep.healthChecks.keys[0]") for problem in problems_of(service))
