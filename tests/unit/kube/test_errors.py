"""Parsing of API errors."""

import json

from daybreak.kube.errors import from_response


def test_kubernetes_status_sets_reason_and_message() -> None:
    body = {"kind": "Status", "reason": "Invalid", "message": "spec.x: Required value"}
    error = from_response(422, json.dumps(body).encode(), None)
    assert (error.reason, error.message, error.refused) == ("Invalid", "spec.x: Required value", True)


def test_proxy_response_sets_message_and_retry_after() -> None:
    error = from_response(502, b"<html>bad gateway</html>", "2.5")
    assert (error.message, error.retry_after, error.refused) == ("<html>bad gateway</html>", 2.5, False)
    assert from_response(503, b"", "soon").retry_after == 0
    assert from_response(503, b"[]", None).message == "[]"


def test_type_error_is_rejection_with_sorted_message() -> None:
    head = "failed to create typed patch object (ns/x; ray.io/v1, Kind=RayService): errors:"
    one, two = "  .spec.a: expected map", "  .spec.b: expected string"
    message = [
        from_response(500, json.dumps({"message": "\n".join(lines)}).encode(), None)
        for lines in ([head, one, two], [head, two, one])
    ]
    assert message[0].message == message[1].message == f"{head} {one.strip()} {two.strip()}"
    assert message[0].refused
    assert not from_response(500, b'{"message": "etcdserver: request timed out"}', None).refused
