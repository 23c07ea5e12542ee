"""Stored responses of `/v1/responses`: what is said of one that is not there any more."""

from http import HTTPStatus
from typing import Any


def missing(response_id: str, *, stores: bool = True) -> str:
    """Why a response is not there, and what to do.

    Args:
        response_id: Its id, as the client has it.
        stores: Whether the engine stores responses at all.
    """
    reason = (
        "Responses are stored in the memory of the replica that made them: other replicas do not have them, "
        "and they end with it, when it sleeps, is replaced or scaled down."
        if stores
        else "This service stores no responses."
    )
    return f"The response {response_id} is not stored in this replica. {reason} Send the whole conversation."


def explain(serving: Any | None) -> None:
    """Have vLLM give the reason to who names such a response in `previous_response_id`.

    Args:
        serving: vLLM's OpenAIServingResponses; None where the model has none.
    """
    if serving is None:
        return

    def not_found(response_id: str) -> Any:
        return serving.create_error_response(
            message=missing(response_id, stores=serving.enable_store),
            err_type="invalid_request_error",
            status_code=HTTPStatus.NOT_FOUND,
            param="previous_response_id",
        )

    serving._make_not_found_error = not_found
