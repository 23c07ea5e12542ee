"""What people write: load → preprocess → predict → postprocess, and explain."""

from collections.abc import Mapping
from typing import Any, ClassVar

from daybreak_runtime.models.llm import LLM
from daybreak_runtime.models.step import Step
from daybreak_runtime.v2.hints import Signature, signature


class Model:
    """One version of a model in a replica. `predict` is written, the rest may be; each is sync or `async`.

    A parameter of a hook is an input by its name, and its hint says which: `str`, `list[str]` (as many as the
    request has), `int`, `float`, `bool`, `bytes` and lists of them, or an array as
    `Annotated[np.ndarray, Tensor("FP32", -1, 4)]`. What a hook gives is one output, called `output`, or
    several by a TypedDict. A parameter of the type `Request` is no input: it has the request's id, parameters
    and headers.

    A hook that raises `BadInput` answers 400 with its text; any other exception answers 500.

    Attributes:
        name: As in the path.
        version: As in the path.
        source: Where this version's weights are, or "": `versions[].source` of the arguments.
        settings: `settings` of the arguments.
        uses: Deployments that `application(..., uses=...)` gave it: `await self.uses["other"](text=["a"])`.
        llms: LLMs of `spec.llms`, by their names: `await self.llms["chat"].chat("Hello")`.
    """

    threads: ClassVar[int] = 1
    """How many hooks that are not `async` run at once in a replica."""
    platform: ClassVar[str] = "python"
    """What the metadata says."""

    name: str = ""
    version: str = ""
    source: str = ""
    settings: Mapping[str, Any]
    uses: Mapping[str, Step]
    llms: Mapping[str, LLM]

    def load(self) -> Any:
        """Load the weights: once, before the first request. What it raises is why the model is not ready."""

    def unload(self) -> Any:
        """Let go of what `load` took; afterwards nothing is asked any more."""

    # The hooks below have parameters and hints of their own in each model, so they are no methods here.
    # preprocess: takes the inputs, and gives what predict takes: a dict by name, or its only argument.
    # predict: with batching, every argument has the rows of several requests, and so has what it gives.
    # postprocess: takes what predict gave as its only argument, and gives the outputs.
    # explain: takes the inputs as they came, and gives the outputs of /explain.
    preprocess: ClassVar[Any] = None
    predict: ClassVar[Any] = None
    postprocess: ClassVar[Any] = None
    explain: ClassVar[Any] = None

    def inference(self) -> Signature:
        """What `/infer` takes and gives, asked after `load`: a model whose weights say it overrides this.

        Raises:
            TypeError: There is no `predict`, or a hook with a hint that is no tensor.
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
        """What `/explain` takes and gives, or None when the model explains nothing."""
        return None if self.explain is None else signature(self.explain)
