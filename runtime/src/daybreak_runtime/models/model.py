"""Base class of user models: load → preprocess → predict → postprocess, and explain."""

from collections.abc import Mapping
from typing import Any, ClassVar

from daybreak_runtime.models.llm import LLM
from daybreak_runtime.models.step import Step
from daybreak_runtime.v2.hints import Signature, signature


class Model:
    """One version of a model in a replica.

    `predict` is required, other hooks are optional; each is sync or `async`.

    A parameter of a hook is the input of that name, and its hint determines the type: `str`, `list[str]` (as
    many as the request has), `int`, `float`, `bool`, `bytes` and lists of them, or an array as
    `Annotated[np.ndarray, Tensor("FP32", -1, 4)]`. The result of a hook is one output, called `output`, or
    several with a TypedDict. A parameter of the type `Request` is not an input: it has the request's id,
    parameters and headers.

    A hook that raises `BadInput` answers 400 with its text; any other exception answers 500.

    Attributes:
        name: Name in the path.
        version: Version in the path.
        source: Source of this version's weights, or "": `versions[].source` of the arguments.
        settings: `settings` of the arguments.
        uses: Deployments from `application(..., uses=...)`: `await self.uses["other"](text=["a"])`.
        llms: LLMs of `spec.llms`, by their names: `await self.llms["chat"].chat("Hello")`.
    """

    threads: ClassVar[int] = 1
    """Maximum number of hooks that are not `async` and run concurrently in a replica."""
    platform: ClassVar[str] = "python"
    """Platform in the metadata."""

    name: str = ""
    version: str = ""
    source: str = ""
    settings: Mapping[str, Any]
    uses: Mapping[str, Step]
    llms: Mapping[str, LLM]

    def load(self) -> Any:
        """Load the weights: once, before the first request.

        An exception is the reason why the model is not ready.
        """

    def unload(self) -> Any:
        """Release the resources of `load`; no request follows."""

    # Each model gives the hooks below its own parameters and hints, so they are not methods here.
    #
    # preprocess: takes the inputs, and returns the arguments of predict: a dict by name, or its only
    # argument.
    # predict: with batching, every argument has the rows of several requests, as has the result.
    # postprocess: takes the result of predict as its only argument, and returns the outputs.
    # explain: takes the unchanged inputs, and returns the outputs of /explain.
    preprocess: ClassVar[Any] = None
    predict: ClassVar[Any] = None
    postprocess: ClassVar[Any] = None
    explain: ClassVar[Any] = None

    def inference(self) -> Signature:
        """Return inputs and outputs of `/infer`, after `load`. Override it if the weights determine them.

        Raises:
            TypeError: There is no `predict`, or a hook has a hint that is not a tensor.
        """
        if self.predict is None:
            raise TypeError(f"{type(self).__name__} has no predict")
        first = self.preprocess or self.predict
        last = self.postprocess or self.predict
        if first == last:
            return signature(first)
        taken = signature(first, outputs=False)
        given = signature(last, inputs=False)
        return Signature(taken.inputs, given.outputs, given.named, taken.request)

    def explanation(self) -> Signature | None:
        """Return inputs and outputs of `/explain`, or None if the model explains nothing."""
        return None if self.explain is None else signature(self.explain)
