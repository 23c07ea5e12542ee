"""Errors for a stored response that no longer exists."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest

from daybreak_runtime.http.stored import explain


@dataclass
class Serving:
    """Fake of vLLM's OpenAIServingResponses, with the used members only; tests/serving uses the real one."""

    enable_store: bool

    def create_error_response(
        self, message: str, err_type: str, status_code: HTTPStatus, param: str
    ) -> dict[str, Any]:
        """Used fields of vLLM's ErrorInfo."""
        return {"message": message, "type": err_type, "code": status_code.value, "param": param}

    def _make_not_found_error(self, response_id: str) -> dict[str, Any]:
        raise AssertionError(f"vLLM's own words for {response_id}, without the reason")


@pytest.mark.parametrize(
    ("stores", "reason"),
    [(True, "in the memory of the replica"), (False, "This service stores no responses")],
)
def test_missing_previous_response_is_reported_with_reason(stores: bool, reason: str) -> None:
    serving = Serving(stores)
    explain(serving)
    error = serving._make_not_found_error("resp_1")
    assert reason in error["message"]
    assert "resp_1" in error["message"]
    assert "whole conversation" in error["message"]
    assert "VLLM_" not in error["message"], "what a client cannot set, and would not find by an id"
    assert (error["type"], error["code"], error["param"]) == (
        "invalid_request_error",
        404,
        "previous_response_id",
    )


def test_engine_without_responses_is_ignored() -> None:
    explain(None)
