"""Page docs/responses.md: every error response of the gateway, from the table of responses."""

from daybreak.gateway.responses import responses
from daybreak.gateway.responses.responses import Response

_HEAD = """\
<!-- Made by `make generate` from operator/src/daybreak/gateway/responses/responses.json; do not edit. -->
# Error responses of the gateway

This page lists every error response that the gateway generates itself. For the most frequent codes,
[troubleshooting.md](troubleshooting.md#responses-to-clients) has causes and fixes. Responses of a model are
not listed, because the gateway only forwards them.

The body has the format of OpenAI's errors. If a field of the request is invalid, `param` names it:

```json
{"error": {"message": "...", "type": "...", "param": null, "code": "..."}}
```

Programs should evaluate the status and the code. Several responses may share a code, and messages may change.
A name in braces is a placeholder for a value; `{retry_after}` is in seconds.

The gateway runs several HAProxies. `hold` is the HAProxy before the services. `router` means the HAProxies of
the namespace's address `llm` and of LLMRoutes. A request through `router` can receive responses of both.

If a request is not valid HTTP, or its headers are incomplete or too large, HAProxy responds with a fixed 400
or 408 in HTML, which is not listed.
"""


def responses_md() -> str:
    """Return the page docs/responses.md."""
    lines = ["| Status | Code | Type | Message | Headers | HAProxy | When |", "| --- " * 7 + "|"]
    lines += [_row(response) for response in responses.table().values()]
    return f"{_HEAD}\n" + "\n".join(lines) + "\n"


def _row(response: Response) -> str:
    headers = ", ".join(f"`{header}: {text}`" for header, text in response.all_headers.items())
    haproxy = ", ".join(f"`{each}`" for each in response.haproxy.parts)
    cells = (
        str(response.status),
        f"`{response.code}`",
        f"`{response.type}`",
        f"`{response.message}`",
        headers,
        haproxy,
        response.when,
    )
    return "| " + " | ".join(cells) + " |"
