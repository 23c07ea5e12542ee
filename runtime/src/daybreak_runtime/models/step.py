"""Model of another deployment, called by Serve's handle."""

from typing import Any

from daybreak_runtime.v2.problem import Problem


class Step:
    """Model of another deployment: `await step(text=["a"])` returns its outputs by name.

    Args:
        name: Name for messages.
        handle: Handle of Serve, of a deployment with a method `infer`.
    """

    def __init__(self, name: str, handle: Any) -> None:
        self.name = name
        self._handle = handle

    async def __call__(self, **inputs: Any) -> dict[str, Any]:
        """Call the model with values of its hooks' types. Raises Problem."""
        try:
            found: dict[str, Any] = await self._handle.infer.remote(**inputs)
        except Exception as error:
            # Serve's wrapper has both classes, and its text is a trace.
            cause = getattr(error, "cause", error)
            if isinstance(cause, Problem):
                raise Problem(f"{self.name}: {cause.message}", cause.status) from None
            raise
        return found
