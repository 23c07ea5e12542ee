"""Stored responses of `/v1/responses`: the message for a missing one."""

from http import HTTPStatus
from typing import Any


def missing(response_id: str, *, stores: bool = True) -> str:
    """Return why a response is missing, and what to do.

    Args:
        response_id: Id of the response, as the client has it.
        stores: True if the engine stores responses at all.
    """
    reason = (
        "Responses are stored in the memory of the replica that made them: other replicas do not have them, "
        "and they end with it, when it sleeps, is replaced or scaled down."
        if stores
        else "This service stores no responses."
    )
    return f"The response {response_id} is not stored in this replica. {reason} Send the whole conversation."


def explain(serving: Any | None) -> None:
    """Make vLLM explain a missing response to a client that names it in `previous_response_id`.

    Args:
        serving: vLLM's OpenAIServingResponses; None if the model has none.
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
