"""Errors of other programs, reduced to the line that explains them."""

import pytest

from daybreak.problems.engine_errors import engine_error
from daybreak.problems.redact import LIMIT, excerpt

RAY_TASK_ERROR = """The deployment failed to start 3 times in a row. This may be due to a problem with its \
constructor or initial health check failing. See controller logs for details. Error:
\x1b[36mray::ServeReplica:llm:LLMServer:tiny.initialize_and_get_metadata()\x1b[39m (pid=712, ip=10.1.0.4, \
actor_id=77b1, repr=<ray.serve._private.replica.ServeReplica object at 0x7f0c4d1c0d90>)
  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 456, in result
    return self.__get_result()
           ^^^^^^^^^^^^^^^^^^^
  File "/opt/ray/llm_server.py", line 200, in __init__
    await self.start()
huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': \
'/models/nope'. Use `repo_type` argument if needed.

During handling of the above exception, another exception occurred:

\x1b[36mray::ServeReplica:llm:LLMServer:tiny.initialize_and_get_metadata()\x1b[39m (pid=712, ip=10.1.0.4)
  File "/opt/transformers/utils/hub.py", line 479, in cached_files
    raise OSError(
OSError: /models/nope is not a local folder and is not a valid model identifier listed on \
'https://huggingface.co/models'
If this is a private repository, make sure to pass a token having permission to this repo either by logging \
in with `hf auth login` or by passing `token=<your_token>`

The above exception was the direct cause of the following exception:

\x1b[36mray::ServeReplica:llm:LLMServer:tiny.initialize_and_get_metadata()\x1b[39m (pid=712, ip=10.1.0.4)
  File "/opt/vllm/v1/engine/core_client.py", line 99, in launch
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"""

VALIDATION = """A replica failed to start with exception. Retrying 2 more time(s). Error:
ray::ServeReplica (pid=1)
  File "/opt/vllm/engine/arg_utils.py", line 1, in create_model_config
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (1000000) is greater than the derived max_model_len \
(max_position_embeddings=4096). [type=value_error, input_value=ArgsKwargs((), {'model': '/models/tiny'}), \
input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error"""


def test_engine_error_reports_os_error_from_exception_chain() -> None:
    assert engine_error(RAY_TASK_ERROR) == (
        "OSError: /models/nope is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models' If this is a private repository, make sure to pass a token having "
        "permission to this repo either by logging in with `hf auth login` or by passing `token=<your_token>`"
    )


NO_PACKAGE = """Deploying app 'llm' failed with exception:
Traceback (most recent call last):
  File "/opt/ray/llm/_internal/common/utils/import_utils.py", line 25, in try_import
    return importlib.import_module(name)
ModuleNotFoundError: No module named 'daybreak_runtime'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/ray/serve/_private/application_state.py", line 1, in build_serve_application
ImportError: Could not import daybreak_runtime.llm"""


@pytest.mark.parametrize("message", [NO_PACKAGE, NO_PACKAGE.partition("\n\nDuring")[0]])
def test_missing_daybreak_package_in_image_is_reported_with_fix(message: str) -> None:
    report = engine_error(message)
    assert report.startswith("the image (spec.runtime.image) lacks Daybreak's package")
    assert "daybreak-runtime" in report
    assert "spec.runtime.directIngress: false" in report


def test_missing_module_of_daybreak_package_is_reported_unchanged() -> None:
    message = engine_error(NO_PACKAGE.partition("\n\nDuring")[0].replace("_runtime'", "_runtime.modles'"))
    assert message == "ModuleNotFoundError: No module named 'daybreak_runtime.modles'"


TOO_OLD = """A replica failed to start with exception. Retrying 2 more time(s). Error:
ray::ServeReplica (pid=1)
  File "/opt/torch/cuda/__init__.py", line 478, in _lazy_init
    torch._C._cuda_init()
RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update your GPU \
driver by downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx

The above exception was the direct cause of the following exception:

RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"""


def test_outdated_driver_is_reported_with_required_version() -> None:
    assert engine_error(TOO_OLD) == (
        "the NVIDIA driver of the node, which knows CUDA 12.8 at most, is too old: CUDA 13.0 of Daybreak's "
        "image needs 580.65.06 or newer. Install a newer driver, select other nodes in "
        "accelerator.nodeSelector, or set runtime.image to an image whose CUDA the driver supports"
    )


@pytest.mark.parametrize(
    ("message", "reported"),
    [
        (
            "CUDA error: CUDA driver version is insufficient for CUDA runtime version",
            "the NVIDIA driver of the node is too old: CUDA 13.0",
        ),
        (
            "CUDA error: the provided PTX was compiled with an unsupported toolchain.",
            "the NVIDIA driver of the node is too old: CUDA 13.0",
        ),
        (
            "Error 803: system has unsupported display driver / cuda driver combination",
            "the NVIDIA driver of the node is not of one version",
        ),
        (
            "CUDA error: no kernel image is available for execution on the device",
            "the image has no machine code for the node's GPU",
        ),
    ],
)
def test_cuda_error_about_driver_or_gpu_is_reported_as_its_cause(message: str, reported: str) -> None:
    traceback = f"Error:\nTraceback (most recent call last):\ntorch.AcceleratorError: {message}"
    assert engine_error(traceback).startswith(reported)


def test_validation_error_is_reported_without_its_input() -> None:
    assert engine_error(VALIDATION) == (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, "
        "User-specified max_model_len (1000000) is greater than the derived max_model_len "
        "(max_position_embeddings=4096)."
    )


@pytest.mark.parametrize(
    ("message", "reported"),
    [
        (
            "Error:\nValueError: no\n\nDuring handling of it\nRuntimeError: EngineDeadError",
            "ValueError: no",
        ),
        (
            "Error:\nRuntimeError: Engine core initialization failed. See above.",
            "RuntimeError: Engine core initialization failed. See above. (the cause is in the logs below "
            "/tmp/ray/session_latest/logs of the worker pod)",
        ),
        (
            "Error:\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.",
        ),
        # A bucket that does not exist, as Ray reports it.
        (
            "Error:\nRuntimeError: Traceback (most recent call last):\n"
            '  File "/opt/s3_filesystem.py", line 1, in list\n'
            "botocore.errorfactory.NoSuchBucket: An error occurred (NoSuchBucket): it does not exist\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            "Traceback (most recent call last):\n"
            '  File "/opt/callbacks/base.py", line 85, in _handle_callback_error\n'
            "    raise Exception(\n"
            "Exception: Error running callback method on CloudDownloader: An error occurred (NoSuchBucket)",
            "Exception: Error running callback method on CloudDownloader: An error occurred (NoSuchBucket)",
        ),
        ("Error:\nsomething went wrong", "something went wrong"),
        (
            "Deploying app 'llm' failed with exception:\nTraceback (most recent call last):\nKeyError: 'x'",
            "KeyError: 'x'",
        ),
        ("The deployment is odd", "The deployment is odd"),
        ("Error:\n", "Error:"),
        ("", ""),
    ],
)
def test_engine_error_reports_explanatory_line_of_message(message: str, reported: str) -> None:
    assert engine_error(message) == reported


@pytest.mark.parametrize(
    "secret",
    [
        "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
        "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc_def-ghi",
        "https://alice:s3cr3t-pass@example.com/models",
        "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "{'api_key': 'sk-proj-0123456789abcdef'}",
        "X-Amz-Signature=0123456789abcdef0123456789abcdef",
    ],
)
def test_secrets_are_masked(secret: str) -> None:
    message = engine_error(f"Error:\nValueError: request with {secret} was refused")
    assert "***" in message
    for part in ("AbCdEfGh", "eyJ", "s3cr3t", "IOSFODNN", "wJalr", "sk-proj", "0123456789abcdef"):
        assert part not in message
    assert message.startswith("ValueError: request with ")
    assert message.endswith("was refused")


def test_excerpt_omits_text_that_differs_between_attempts() -> None:
    def attempt(number: int) -> str:
        return (
            f"RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1-{number};ab) "
            f"for <Foo at 0x7f{number:06x}> (pid={number})"
        )

    assert excerpt(attempt(1)) == excerpt(attempt(2)) != ""


def test_length_of_excerpt_and_engine_error_is_bounded() -> None:
    assert len(excerpt("word " * 10_000)) <= LIMIT
    assert len(engine_error("Error:\nValueError: " + "x" * 10**6)) <= LIMIT
    assert len(engine_error("Error:\nEngineDeadError: " + "x" * 10**6)) <= LIMIT + 100
    assert excerpt("a\n  b\tc") == "a b c"
