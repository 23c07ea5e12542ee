"""What HAProxy itself answers when something is wrong, in OpenAI's error shape."""

import json

ERRORS = (
    (400, "The request is not valid HTTP, or broke off.", "invalid_request_error", "bad_request"),
    (403, "The request is not allowed.", "invalid_request_error", "forbidden"),
    (405, "The method is not allowed here.", "invalid_request_error", "method_not_allowed"),
    (408, "The request did not arrive in time.", "invalid_request_error", "request_timeout"),
    (413, "The request is too large.", "invalid_request_error", "request_too_large"),
    (422, "The request cannot be processed.", "invalid_request_error", "unprocessable"),
    (429, "Too many requests: try again later.", "rate_limit_error", "too_many_requests"),
    (500, "The gateway failed.", "server_error", "internal_error"),
    (501, "The request asks for what the gateway does not do.", "invalid_request_error", "not_implemented"),
    (502, "The model ended the connection without a valid answer.", "server_error", "bad_gateway"),
    (
        503,
        "No replica of the model took the request in time: all are busy, or none can be reached. Try again.",
        "server_error",
        "service_unavailable",
    ),
    (504, "The model did not answer in time.", "server_error", "gateway_timeout"),
)
"""What HAProxy itself answers: status, message, type and code, in OpenAI's error shape.

Not before a request's head is here, whole and well formed: what it says then (400 and 408, a line of HTML) is
fixed in HAProxy 2.8, and neither `http-error` nor `errorfile` changes it.
"""


def error_body(message: str, kind: str, code: str) -> str:
    """An error in OpenAI's shape, as JSON."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json.dumps({"error": error})
