"""Access to Ray's engine object and to vLLM's client in it: every name that is not public."""

from collections.abc import Mapping
from typing import Any

from daybreak_runtime.http.stored import explain


class Engine:
    """Started engine.

    Args:
        engine: Ray Serve LLM's VLLMEngine.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._client = engine._engine_client
        self._state: Any = None

    async def app(self) -> Any:
        """Return vLLM's own OpenAI app, on the same serving objects as Ray's."""
        app = await self._engine.build_asgi_app()
        self._state = app.state
        explain(getattr(app.state, "openai_serving_responses", None))
        _add_one_model(app)
        _say_what_is_missing(app)
        return app

    @property
    def dead(self) -> bool:
        """True if the engine can no longer answer."""
        return bool(self._client.errored)

    @property
    def takes_adapters(self) -> bool:
        """True if the engine was started with support for LoRA adapters."""
        return self._client.vllm_config.lora_config is not None

    @property
    def unfinished(self) -> int:
        """Number of unfinished requests, those in the scheduler's queue included."""
        return int(self._client.get_num_unfinished_requests())

    @property
    def has_gpu_sampler(self) -> bool:
        """Return True if the engine samples tokens on a GPU of CUDA or ROCm.

        An embedding model has no sampler; an encoder-decoder model needs more than a text prompt.
        """
        config = self._client.vllm_config
        generates = config.model_config.runner_type == "generate"
        with_encoder = config.model_config.is_encoder_decoder
        return config.device_config.device_type == "cuda" and generates and not with_encoder

    @property
    def max_rows(self) -> int:
        """Return the maximum number of requests in a batch."""
        return int(self._client.vllm_config.scheduler_config.max_num_seqs)

    @property
    def default_sampling(self) -> Mapping[str, Any]:
        """Return the model's own sampling parameters."""
        parameters: dict[str, Any] = self._client.vllm_config.model_config.get_diff_sampling_param()
        return parameters

    async def generate(self, request_id: str, tokens: int, sampling: Mapping[str, Any]) -> None:
        """Generate a number of tokens from a prompt of one token."""
        from vllm import SamplingParams

        params = SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False, **sampling)
        async for _ in self._client.generate({"prompt_token_ids": [1]}, params, request_id):
            pass

    def shutdown(self) -> None:
        """End the engine's processes."""
        self._client.shutdown()

    def has_response(self, response_id: str) -> bool:
        """Return True if a response of this id is stored, or if the engine has no store to query."""
        store = getattr(getattr(self._state, "openai_serving_responses", None), "response_store", None)
        return store is None or response_id in store


def _add_one_model(app: Any) -> None:
    """Add `GET /v1/models/{name}`, which OpenAI's clients use and vLLM's app lacks."""
    from fastapi import HTTPException

    async def model(name: str) -> Any:
        known = await app.state.openai_serving_models.show_available_models()
        for card in known.data:
            if card.id == name:
                return card
        raise HTTPException(404, f"The model `{name}` does not exist.")

    app.add_api_route("/v1/models/{name:path}", model, methods=["GET"], include_in_schema=False)


def _say_what_is_missing(app: Any) -> None:
    """Answer paths that this model does not serve in OpenAI's format, instead of the web framework's."""
    from starlette.exceptions import HTTPException

    async def missing(request: Any, error: Any) -> Any:
        from starlette.responses import JSONResponse

        message = str(error.detail)
        if error.status_code == 404:
            message = f"The model does not serve {request.url.path}."
        document = {
            "message": message,
            "type": "invalid_request_error",
            "param": None,
            "code": error.status_code,
        }
        return JSONResponse({"error": document}, error.status_code, error.headers)

    # vLLM's own handler is for FastAPI's class of errors; the router itself raises Starlette's class.
    app.add_exception_handler(HTTPException, missing)
    # vLLM has built its middleware stack already; the first request builds it again.
    app.middleware_stack = None
