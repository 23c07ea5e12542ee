"""Copies a model's weights into a mounted claim.

$DAYBREAK_FILL is JSON: `source` (a URL as in the spec), `revision`, `root` (where the claim is mounted),
`directory` (where in it the weights belong), `sole` (whether the claim is for this model alone) and `port`.
The weights are gathered in a directory of another name, which gets its own when everything is there: a
directory of that name with the file `.daybreak-complete` in it is whole. What an earlier try has left is
taken up. At the port it tells meanwhile how far it is: GET /-/fill gives JSON with `directory`, `copied` and
`bytes`, which is null until the source is listed.

What is to be told goes to $TERMINATION_LOG, from where Kubernetes takes it into the pod's status: JSON with
`bytes` and `revision`, or what went wrong. Exit status 2 says that somebody has to act, 1 that it may pass.

The text of this file is run by `python3 -c` in the Ray image: the standard library, what that image has for
downloads, and nothing else.
"""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

MARKER = ".daybreak-complete"
GATHERING = ".daybreak-filling-"
LOCK = ".daybreak-lock-"
AT_ONCE = 8
"""Files that are copied at the same time; each by several connections."""
SPARE_BYTES = 16 * 2**20
"""What must stay free beside the weights, for the file system itself."""
MESSAGE_LIMIT = 3000
"""Longest message, in characters: Kubernetes keeps 4096 bytes."""
PATH = "/-/fill"
LOOK_SECONDS = 2.0
"""How long one look at the files does for everybody who asks."""
OTHER_FORMATS = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".ot", ".tflite", ".gguf")
"""The same weights again, where a repository has safetensors: vLLM reads those only."""


class Stuck(Exception):
    """Somebody has to act before it can work."""


class File(NamedTuple):
    """One file of the source."""

    path: str
    """Path below the source."""
    size: int


class Source(NamedTuple):
    """A source, listed."""

    files: list[File]
    revision: str | None
    fetch: Callable[[Path, list[File]], None]
    """Copies the files into a directory; those that are there already may be passed over."""


class Progress:
    """How far the copy into a directory is, read from the files themselves when somebody asks."""

    def __init__(self, directory: str) -> None:
        self._told: dict[str, Any] = {"directory": directory, "copied": 0, "bytes": None}
        self._into: Path | None = None
        self._looked = 0.0

    def begin(self, into: Path, total: int) -> None:
        """So many bytes are gathered there from now on, some of which may be there already."""
        self._told["bytes"] = total
        self._into, self._looked = into, 0.0

    def report(self) -> dict[str, Any]:
        """What is told. Parts of files count, wherever a client keeps them."""
        now = time.monotonic()
        if self._into is not None and now - self._looked > LOOK_SECONDS:
            self._looked = now
            with contextlib.suppress(OSError):  # parts of files come and go
                found = sum(max(0, _size(path)) for path in _files(self._into))
                self._told["copied"] = max(self._told["copied"], min(found, self._told["bytes"]))
        return dict(self._told)

    @contextlib.contextmanager
    def told(self, port: int) -> Iterator[None]:
        """Answer there meanwhile. Where the port is taken nobody is told, and it works all the same."""
        progress = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0  # one who asks, and then says nothing, keeps nobody waiting for longer

            def do_GET(self) -> None:  # the name that the base class looks for
                body = json.dumps(progress.report()).encode() if self.path == PATH else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Asked every few seconds: nobody wants to read that."""

        try:
            server = HTTPServer(("", port), Handler)
        except OSError as error:
            print(f"nobody is told how far it is: {error}", flush=True)
            yield
            return
        threading.Thread(target=server.serve_forever, daemon=True, name="progress").start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


def hugging_face(repository: str, revision: str | None) -> Source:
    """A repository of the Hugging Face Hub, at the commit that the revision is now."""
    from huggingface_hub import HfApi, hf_hub_download

    with _hub_errors(repository, revision):
        found = HfApi().model_info(repository, revision=revision, files_metadata=True)
    commit = found.sha
    files = _without_doubles([File(each.rfilename, each.size or 0) for each in found.siblings or ()])

    def fetch(into: Path, wanted: list[File]) -> None:
        def copy(file: File) -> None:
            hf_hub_download(repository, file.path, revision=commit, local_dir=into)

        # Who may see that a gated repository is there need not be allowed to read its files.
        with _hub_errors(repository, revision):
            _each(copy, _missing(into, wanted))

    return Source(files, commit, fetch)


@contextlib.contextmanager
def _hub_errors(repository: str, revision: str | None) -> Iterator[None]:
    """Says what the hub's refusals mean here."""
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
    """Without weights in other formats, where the same are there as safetensors; and without `original/`."""
    own = [file for file in files if not file.path.startswith("original/")]
    if not any(file.path.endswith(".safetensors") for file in own):
        return own
    return [file for file in own if not file.path.endswith(OTHER_FORMATS)]


def s3(bucket: str, prefix: str) -> Source:
    """Everything below a prefix of an S3 bucket."""
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

    def fetch(into: Path, wanted: list[File]) -> None:
        def copy(file: File) -> None:
            client.download_file(bucket, prefix + file.path, str(_place(into, file)))

        _each(copy, _missing(into, wanted))

    return Source(files, None, fetch)


def gcs(bucket: str, prefix: str) -> Source:
    """Everything below a prefix of a Google Cloud Storage bucket."""
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

    def fetch(into: Path, wanted: list[File]) -> None:
        def copy(file: File) -> None:
            with (
                store.open_input_stream(f"{root}/{file.path}") as there,
                _place(into, file).open("wb") as here,
            ):
                shutil.copyfileobj(there, here, 16 * 2**20)

        _each(copy, _missing(into, wanted))

    return Source(files, None, fetch)


def _anonymous(bucket: str) -> tuple[bool, str]:
    """Whether a bucket is to be read without credentials, which Ray writes `anonymous@bucket`; its name."""
    return bucket.startswith("anonymous@"), bucket.removeprefix("anonymous@")


def _place(into: Path, file: File) -> Path:
    """Where a file goes. Never out of the directory, whatever its name."""
    place = into / file.path
    if ".." in Path(file.path).parts or not place.is_relative_to(into):
        raise Stuck(f"the source has a file of the name {file.path}")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _missing(into: Path, files: list[File]) -> list[File]:
    return [file for file in files if _size(into / file.path) != file.size]


def _each(copy: Callable[[File], None], files: list[File]) -> None:
    """Copy all of them, several at once; the first error ends it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tasks = [pool.submit(copy, file) for file in files]
        try:
            for task in tasks:
                task.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def listed(source: str, revision: str | None) -> Source:
    """What a source has."""
    scheme, _, rest = source.partition("://")
    if scheme == "hf":
        return hugging_face(rest, revision)
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    return {"s3": s3, "gs": gcs}[scheme](bucket, f"{prefix}/" if prefix else "")


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One process at a time, of those that share the claim, where its file system has locks."""
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            print(f"no locks here ({error}): two Jobs may copy the same", flush=True)
        yield


def fill(order: dict[str, Any]) -> dict[str, Any]:
    """Do it; returns what is to be told."""
    root, directory = Path(order["root"]), order["directory"]
    progress = Progress(directory)
    with progress.told(order["port"]), alone(root / f"{LOCK}{directory}"):
        told = _kept(root / directory)
        if told is None:
            source = listed(order["source"], order["revision"])
            if not source.files:
                raise Stuck(f"there are no files below {order['source']}")
            if order["sole"]:
                _make_room(root, directory)
            told = _gather(root, directory, source, progress)
        else:
            # The one that was asked for last is the one in use: see _make_room.
            os.utime(root / directory / MARKER)
    return told


def _kept(directory: Path) -> dict[str, Any] | None:
    """What was told of a directory that is whole; None when it is not."""
    try:
        found: dict[str, Any] = json.loads((directory / MARKER).read_text())
    except (OSError, ValueError):
        return None
    return found


def _make_room(root: Path, directory: str) -> None:
    """Remove what nobody reads: all but the weights that were asked for last, which pods may have open."""
    whole = [each.parent for each in root.glob(f"[!.]*/{MARKER}")]
    latest = max(whole, key=lambda each: (each / MARKER).stat().st_mtime, default=None)
    stale = [each for each in root.glob(f"{GATHERING}*") if each.name != f"{GATHERING}{directory}"]
    for each in [*stale, *(each for each in whole if each != latest)]:
        print(f"removing {each.name}", flush=True)
        # First its name: what is half removed must not look whole.
        (each / MARKER).unlink(missing_ok=True)
        shutil.rmtree(each)


def _gather(root: Path, directory: str, source: Source, progress: Progress) -> dict[str, Any]:
    into = root / f"{GATHERING}{directory}"
    into.mkdir(exist_ok=True)
    total = sum(file.size for file in source.files)
    space = shutil.disk_usage(root)
    needed = total - sum(max(0, _size(path)) for path in _files(into)) + SPARE_BYTES
    if space.total and needed > space.free:
        raise Stuck(
            f"{_gib(needed)} more are needed in the claim, and {_gib(space.free)} are free: make it larger"
        )
    print(f"copying {len(source.files)} files, {_gib(total)}", flush=True)
    progress.begin(into, total)
    source.fetch(into, source.files)
    missing = _missing(into, source.files)
    if missing:
        raise OSError(f"{len(missing)} files did not come whole, such as {missing[0].path}")
    wanted = {into / file.path for file in source.files}
    for path in _files(into):
        if path not in wanted:  # parts of files, of a try that was ended
            path.unlink()
    shutil.rmtree(into / ".cache", ignore_errors=True)  # the hub's library's own notes
    told = {"bytes": total, "revision": source.revision}
    _write(into / MARKER, json.dumps(told))
    whole = root / directory
    if whole.exists():  # without a marker: somebody has taken it, or begun to remove the directory
        shutil.rmtree(whole)
    into.rename(whole)
    return told


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def main() -> int:
    """Read the order, fill, tell."""
    log = Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log"))
    try:
        told = fill(json.loads(os.environ["DAYBREAK_FILL"]))
    except Stuck as error:
        return _failed(log, str(error), 2)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _failed(log, "the claim is full: make it larger", 2)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return _failed(log, f"the claim cannot be written by user {os.getuid()}: {error}", 2)
        return _failed(log, f"{type(error).__name__}: {error}", 1)
    except Exception as error:  # noqa: BLE001 -- whatever a download can end in, it is told and tried again
        return _failed(log, f"{type(error).__name__}: {error}", 1)
    log.write_text(json.dumps(told))
    print(f"complete: {told}", flush=True)
    return 0


def _failed(log: Path, said: str, status: int) -> int:
    log.write_text(said[:MESSAGE_LIMIT])
    print(said, file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
