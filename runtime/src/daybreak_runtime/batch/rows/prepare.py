"""Conversion of rows to engine requests: templates, chat template and tokens, row by row."""

import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol

from daybreak_runtime.batch.order import Engines, Request
from daybreak_runtime.batch.rows import images, openai_format
from daybreak_runtime.batch.rows.requests import messages, pictures, render, sampling_params
from daybreak_runtime.batch.rows.row_error import RowError

log = logging.getLogger("daybreak.batch")


class Tokenizer(Protocol):
    """Required interface of a tokenizer of transformers."""

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        """Return the text of a conversation."""
        ...

    def encode(self, text: str, **kwargs: Any) -> list[int]:
        """Return the tokens of a text."""
        ...


def tokenizer(engines: Engines, request: Request) -> Any:
    """Return the model's tokenizer with its chat template, or None if neither chat nor tokens are needed.

    Multimodal models may keep their chat template with their processor, where tokenizers do not look.
    """
    chat = request.use_chat_template and (request.task == "generate" or bool(request.images))
    chat = chat or bool(request.messages) or request.messages_column is not None
    if not (request.tokenize or chat):
        return None
    from transformers import AutoProcessor, AutoTokenizer

    args = engines.engine_args
    options = {
        "revision": args.get("tokenizer_revision") or args.get("revision"),
        "trust_remote_code": bool(args.get("trust_remote_code")),
    }
    source = args.get("tokenizer") or engines.source
    found = AutoTokenizer.from_pretrained(source, **options)
    if chat and request.chat_template is None and not found.chat_template:
        try:
            found.chat_template = AutoProcessor.from_pretrained(source, **options).chat_template
        except Exception as error:  # noqa: BLE001 -- whatever it is, the model has no such template
            log.warning("the model has no processor with a chat template: %s", error)
    return found


def prepared(
    request: Request, tokenizer: Tokenizer | None, columns: Mapping[str, Any], adapters: Collection[str] = ()
) -> dict[str, Any]:
    """Return the engine's input for a row. Raises RowError.

    Args:
        request: Rules for making a request from a row.
        tokenizer: Tokenizer of the model; None if neither a chat template nor tokens are needed.
        columns: The row.
        adapters: Adapter names that a batch file's request may use.
    """
    if "body" in columns and "custom_id" in columns:
        found, params, named = _of_batch_file(request, tokenizer, columns)
        adapter = named if named in adapters else request.adapter
    else:
        found, params = _prompt(request, tokenizer, columns), sampling_params(request, columns)
        adapter = request.adapter
        if request.guided_json is not None:
            openai_format.check_guided(request.guided_json, params)
    if request.task == "generate" and (lost := openai_format.lost(params)):
        raise openai_format.not_given(lost)
    if request.guided_json is not None:
        params["structured_outputs"] = {"json": dict(request.guided_json)}
    if request.task == "generate":
        # As with OpenAI's API: to the end of the context. vLLM by itself stops after 16 tokens.
        found["sampling_params"] = {"max_tokens": None, **params}
    elif params:
        found["pooling_params"] = params
    if adapter:
        found["model"] = adapter
    return found


def _prompt(request: Request, tokenizer: Tokenizer | None, columns: Mapping[str, Any]) -> dict[str, Any]:
    chat = request.messages or request.messages_column is not None or request.images
    if tokenizer is None or not request.use_chat_template or (request.task != "generate" and not chat):
        text = render(request.prompt or "", columns)
        # The prompt itself marks the positions of its images, in the model's own format.
        observed = pictures(request, columns, remote=False)
        return _with(observed, _tokens(request, tokenizer, text, special=True))
    return _of_chat(request, tokenizer, messages(request, columns, remote=False))


def _of_batch_file(
    request: Request, tokenizer: Tokenizer | None, columns: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    url, body = openai_format.body(columns, request.task)
    if refused := openai_format.refused(url, body):
        raise openai_format.not_given(refused)
    if request.guided_json is not None:
        openai_format.check_guided(request.guided_json, body)
    params = dict(request.sampling_params)
    if request.task == "generate":
        params |= openai_format.sampling_params(body)
    adapter = body.get("model") if isinstance(body.get("model"), str) else None
    if url == "/v1/chat/completions":
        if tokenizer is None or not isinstance(body.get("messages"), list) or not body["messages"]:
            raise RowError("the body has no messages")
        kwargs = openai_format.template_kwargs(request, body)
        own = replace(request, chat_template_kwargs=kwargs)
        return _of_chat(own, tokenizer, body["messages"]), params, adapter
    text = body.get("input" if url == "/v1/embeddings" else "prompt")
    if not isinstance(text, str):
        raise RowError("the body has no text: one string for each row")
    return _tokens(request, tokenizer, text, special=True), params, adapter


def _of_chat(request: Request, tokenizer: Tokenizer, report: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the engine's input for messages in OpenAI's format."""
    turns, observed = images.parted(report)
    return _with(observed, _tokens(request, tokenizer, _chat(request, tokenizer, turns), special=False))


def _with(observed: list[str], found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "images": observed} if observed else found


def _chat(request: Request, tokenizer: Tokenizer, report: list[dict[str, Any]]) -> str:
    last_is_users = report[-1]["role"] != "assistant"
    try:
        text: str = tokenizer.apply_chat_template(
            report,
            tokenize=False,
            chat_template=request.chat_template,
            add_generation_prompt=last_is_users,
            continue_final_message=not last_is_users,
            **request.chat_template_kwargs,
        )
    except Exception as error:
        raise RowError(f"the chat template fails: {type(error).__name__}: {error}") from error
    return text


def _tokens(request: Request, tokenizer: Tokenizer | None, text: str, *, special: bool) -> dict[str, Any]:
    """Return the prompt, as tokens if needed. A chat template has written special tokens itself."""
    if not text:
        raise RowError("the prompt is empty")
    if tokenizer is None or not request.tokenize:
        return {"prompt": text}
    try:
        return {"tokenized_prompt": tokenizer.encode(text, add_special_tokens=special)}
    except Exception as error:
        raise RowError(f"the prompt cannot be tokenized: {type(error).__name__}: {error}") from error


def as_text(value: Mapping[str, Any]) -> str:
    """Return a value as text for Ray Data, which then has one type for any content."""
    return json.dumps(value, default=str)
