"""The errors of vLLM's own OpenAIServingResponses for a response that is not stored: one line of JSON.

python stored_responses.py, with the packages of the Ray image. No engine is started.
"""

import asyncio
import json

from vllm.entrypoints.openai.responses.serving import OpenAIServingResponses

from daybreak_runtime.http.stored import explain


async def main() -> None:
    """Ask for and cancel a response, with and without a store."""
    errors = {}
    for stores in (True, False):
        serving = OpenAIServingResponses.__new__(OpenAIServingResponses)
        serving.enable_store = stores
        serving.response_store = {}
        serving.response_store_lock = asyncio.Lock()
        explain(serving)
        retrieved = await serving.retrieve_responses("resp_gone", None, False)
        canceled = await serving.cancel_responses("resp_gone")
        errors[str(stores)] = [each.model_dump(mode="json")["error"] for each in (retrieved, canceled)]
    print(json.dumps(errors))


if __name__ == "__main__":
    asyncio.run(main())
