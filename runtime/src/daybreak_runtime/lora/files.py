"""Copying of an adapter's files into a directory of this pod."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from daybreak_runtime.lora.desired import DesiredAdapter

PATTERNS = ("adapter_config.json", "adapter_model.*", "tokenizer*", "special_tokens_map.json", "README.md")
"""Patterns of the files that are fetched: repositories often contain training checkpoints as well."""
_DONE = ".daybreak-complete"
"""Marker in a directory with complete files."""


class NotFetched(Exception):
    """The files are currently unavailable; a retry may succeed."""


def cache_directory() -> Path:
    """Return the parent directory of fetched files."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lora"


def fetch(adapter: DesiredAdapter) -> str:
    """Return the directory with the adapter's files, which do not change while the pod lives.

    Raises NotFetched.
    """
    try:
        if adapter.repository:
            return _repository(adapter)
        if adapter.bucket:
            return str(_once(adapter, lambda target: _bucket(adapter.bucket, target)))
        if adapter.copy:
            return str(_once(adapter, lambda target: _copy(Path(adapter.path), target)))
        if not Path(adapter.path).is_dir():
            raise NotFetched(f"{adapter.path} is no directory of the worker pod")
    except NotFetched:
        raise
    except Exception as error:
        # Four libraries and a network: any exception means that there are no files.
        message = " ".join(str(error).split()) or type(error).__name__
        raise NotFetched(f"{adapter.place} cannot be fetched: {_without_secrets(message)[:600]}") from error
    return adapter.path


def _repository(adapter: DesiredAdapter) -> str:
    """Fetch a repository. The Hub's own cache is atomic, and knows the current files of a branch."""
    from huggingface_hub import snapshot_download

    token = os.environ.get(adapter.token) if adapter.token else None
    path: str = snapshot_download(
        adapter.repository,
        revision=adapter.revision or None,
        allow_patterns=list(PATTERNS),
        token=token,
    )
    return path


def _once(adapter: DesiredAdapter, fill: Callable[[Path], None]) -> Path:
    """Return a directory of the cache that `fill` has filled, now or before.

    It gets its name when it is complete, so the remains of a dead process are never used.
    """
    target = cache_directory() / f"{_plain(adapter.name)}-{adapter.id}"
    if (target / _DONE).exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fill(part)
        (part / _DONE).touch()
        part.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
    except OSError:
        # Another replica with the same volume may have been faster.
        if not (target / _DONE).exists():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _bucket(address: str, target: Path) -> None:
    from ray.llm._internal.common.utils.cloud_utils import CloudFileSystem

    CloudFileSystem.download_files(path=str(target), bucket_uri=address)
    if not any(target.iterdir()):
        raise NotFetched(f"nothing lies at {address}")


def _copy(source: Path, target: Path) -> None:
    if not source.is_dir():
        raise NotFetched(f"{source} is no directory of the worker pod")
    for pattern in PATTERNS:
        for file in source.glob(pattern):
            if file.is_file():
                shutil.copy(file, target / file.name)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _without_secrets(text: str) -> str:
    """Remove signed addresses and tokens, which libraries often quote, from a text."""
    text = re.sub(r"(https?://[^\s?]+)\?\S+", r"\1?...", text)
    return re.sub(r"\bhf_[A-Za-z0-9]{8,}", "hf_...", text)
