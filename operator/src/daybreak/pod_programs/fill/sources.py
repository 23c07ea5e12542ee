"""Sources of weights: the Hugging Face Hub, and buckets."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from daybreak.pod_programs.fill.files import AT_ONCE, File, Source, Stuck, copy_each, missing_of, place_of

OTHER_FORMATS = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".ot", ".tflite", ".gguf")
"""Formats that duplicate the weights of a repository with safetensors, which are the only ones that vLLM
reads."""


def hugging_face(repository: str, revision: str | None) -> Source:
    """List a repository of the Hugging Face Hub, at the current commit of the revision."""
    from huggingface_hub import HfApi, hf_hub_download

    with _hub_errors(repository, revision):
        found = HfApi().model_info(repository, revision=revision, files_metadata=True)
    commit = found.sha
    files = _without_doubles([File(each.rfilename, each.size or 0) for each in found.siblings or ()])

    def fetch(into: Path, desired: list[File]) -> None:
        def copy(file: File) -> None:
            hf_hub_download(repository, file.path, revision=commit, local_dir=into)

        # Access to a gated repository's metadata does not imply access to its files.
        with _hub_errors(repository, revision):
            copy_each(copy, missing_of(into, desired))

    return Source(files, commit, fetch)


@contextlib.contextmanager
def _hub_errors(repository: str, revision: str | None) -> Iterator[None]:
    """Convert rejections by the hub into errors with a remedy."""
    from huggingface_hub import errors

    name = f"hf://{repository}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise Stuck(
            f"{name} is gated: accept its terms, and name the Secret with your token in the model's token"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise Stuck(f"{name} has no revision {revision}") from error
    except errors.RepositoryNotFoundError as error:
        raise Stuck(f"{name} does not exist, or is private and the model's token may not see it") from error


def _without_doubles(files: list[File]) -> list[File]:
    """Return the files without `original/`, and without weights in other formats if there are safetensors."""
    own = [file for file in files if not file.path.startswith("original/")]
    if not any(file.path.endswith(".safetensors") for file in own):
        return own
    return [file for file in own if not file.path.endswith(OTHER_FORMATS)]


def s3(bucket: str, prefix: str) -> Source:
    """List all files below a prefix of an S3 bucket."""
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.exceptions import ClientError, NoCredentialsError

    anonymous, bucket = _anonymous(bucket)
    settings: dict[str, Any] = {"max_pool_connections": AT_ONCE * 10, "retries": {"max_attempts": 5}}
    if anonymous:
        settings["signature_version"] = UNSIGNED
    client = boto3.client("s3", config=Config(**settings))
    name = f"s3://{bucket}/{prefix}"
    try:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = [each for page in pages for each in page.get("Contents", ())]
    except NoCredentialsError as error:
        raise Stuck(
            f"no credentials for {name}: set runtime.env or runtime.serviceAccountName; {error}"
        ) from error
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if 400 <= status < 500 and status not in (408, 429):
            raise Stuck(f"{name}: {error}") from error
        raise
    files = [
        File(each["Key"][len(prefix) :], each["Size"]) for each in found if not each["Key"].endswith("/")
    ]

    def fetch(into: Path, desired: list[File]) -> None:
        def copy(file: File) -> None:
            client.download_file(bucket, prefix + file.path, str(place_of(into, file)))

        copy_each(copy, missing_of(into, desired))

    return Source(files, None, fetch)


def gcs(bucket: str, prefix: str) -> Source:
    """List all files below a prefix of a Google Cloud Storage bucket."""
    from pyarrow import fs

    anonymous, bucket = _anonymous(bucket)
    store = fs.GcsFileSystem(anonymous=anonymous)
    root = f"{bucket}/{prefix}".rstrip("/")
    try:
        found = store.get_file_info(fs.FileSelector(root, recursive=True))
    except (FileNotFoundError, PermissionError) as error:
        raise Stuck(f"gs://{root}: {error}") from error
    files = [
        File(each.path[len(root) + 1 :], each.size or 0) for each in found if each.type == fs.FileType.File
    ]

    def fetch(into: Path, desired: list[File]) -> None:
        def copy(file: File) -> None:
            with (
                store.open_input_stream(f"{root}/{file.path}") as there,
                place_of(into, file).open("wb") as here,
            ):
                shutil.copyfileobj(there, here, 16 * 2**20)

        copy_each(copy, missing_of(into, desired))

    return Source(files, None, fetch)


def _anonymous(bucket: str) -> tuple[bool, str]:
    """Return True if a bucket needs no credentials (`anonymous@bucket` in Ray), and its name."""
    return bucket.startswith("anonymous@"), bucket.removeprefix("anonymous@")


def listed(source: str, revision: str | None) -> Source:
    """List the files of a source."""
    scheme, _, rest = source.partition("://")
    if scheme == "hf":
        return hugging_face(rest, revision)
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    return {"s3": s3, "gs": gcs}[scheme](bucket, f"{prefix}/" if prefix else "")
