"""Progress of a batch: rows, tokens, rates, and errors of the first failed rows."""

import time

from daybreak_runtime.jobs.port import ProgressPort

PATH = "/-/batch"
_RATE_SECONDS = 60.0
"""Seconds over which rates are averaged."""


class Progress(ProgressPort):
    """Progress of a batch, served on a port.

    Args:
        uid: UID of the LLMBatch.
    """

    def __init__(self, uid: str) -> None:
        super().__init__(uid, PATH, {"state": "Reading", "rows": {}})
        self._points: list[tuple[float, int, int]] = []

    def rows(self, *, total: int, done: int, failed: int, prompt_tokens: int, completion_tokens: int) -> None:
        """Update the numbers of total, written and failed rows, and the tokens of the written ones."""
        now, tokens = time.monotonic(), prompt_tokens + completion_tokens
        self._points.append((now, done, tokens))
        while len(self._points) > 2 and now - self._points[1][0] > _RATE_SECONDS:
            self._points.pop(0)
        then, done_then, tokens_then = self._points[0]
        rates = {}
        if now - then > 1:
            rates["rowsPerSecond"] = round((done - done_then) / (now - then), 3)
            rates["tokensPerSecond"] = round((tokens - tokens_then) / (now - then), 3)
        self.write(
            rows={"total": total, "done": done, "failed": failed},
            tokens={"prompt": prompt_tokens, "completion": completion_tokens},
            **rates,
        )

    def errors(self, first: list[str]) -> None:
        """Update the errors of the first failed rows."""
        self.write(errors=[text[:300] for text in first])
