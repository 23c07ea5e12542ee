"""Model sources: one URL and its parts."""

import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.common.source import ModelSource, Scheme

SEGMENT = st.text(string.ascii_letters + string.digits, min_size=1, max_size=12)
CLAIM = st.from_regex(r"\A[a-z][a-z0-9-]{0,20}[a-z0-9]\Z")
PATH = st.lists(SEGMENT, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("hf://Qwen/Qwen2.5-7B", (Scheme.HUGGING_FACE, "Qwen/Qwen2.5-7B", "")),
        ("s3://bucket", (Scheme.S3, "s3://bucket", "")),
        ("s3://bucket/deep/prefix/", (Scheme.S3, "s3://bucket/deep/prefix", "")),
        ("gs://bucket/prefix", (Scheme.GCS, "gs://bucket/prefix", "")),
        ("pvc://models", (Scheme.CLAIM, "models", "")),
        ("pvc://models/", (Scheme.CLAIM, "models", "")),
        ("pvc://models/a/b/", (Scheme.CLAIM, "models", "a/b")),
        ("image://host:5000/weights:1.0", (Scheme.IMAGE, "host:5000/weights:1.0", "")),
        ("image://host/weights:1.0#/model/", (Scheme.IMAGE, "host/weights:1.0", "model")),
        ("file:///models/tiny/", (Scheme.FILE, "", "/models/tiny")),
        ("ollama://llama3", (Scheme.OLLAMA, "llama3", "")),
        ("ollama://owner/llama3.2:3b-q4_0", (Scheme.OLLAMA, "owner/llama3.2:3b-q4_0", "")),
        ("mlflow://churn/3", (Scheme.MLFLOW, "churn/3", "")),
        ("mlflow://churn@champion", (Scheme.MLFLOW, "churn@champion", "")),
    ],
)
def test_source_url_is_split_into_parts(text: str, parts: tuple[Scheme, str, str]) -> None:
    source = ModelSource.parse(text)
    assert (source.scheme, source.reference, source.path) == parts


@pytest.mark.parametrize("text", ["", "Qwen/Qwen2.5-7B", "ftp://host/x", "HF://a/b", "://a/b", "http://a/b"])
def test_unknown_scheme_is_rejected_with_known_schemes(text: str) -> None:
    with pytest.raises(ValueError, match="use one of hf://, s3://, gs://, pvc://, image://, file://"):
        ModelSource.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "hf://gpt2",
        "hf:///name",
        "hf://owner/",
        "hf://owner/name\n",
        "s3:///prefix",
        "pvc:///path",
        "pvc://Claim/path",
        "pvc://claim/../x",
        "image://",
        "image://#path",
        "image://ref#a/../../b",
        "image://ref#..",
        "file://relative",
        "file:///",
        "file:////",
        "file:///a/..",
        "ollama://",
        "ollama://a/b/c",
        "ollama://llama3:",
        "ollama://llama3:a:b",
        "mlflow://churn",
        "mlflow://churn/latest",
        "mlflow://churn/0",
        "mlflow://a/b/3",
        "mlflow://churn/3@champion",
        "s3://bucket/a b",
        "s3://bucket/\u00e9",
    ],
)
def test_malformed_source_is_rejected_with_expected_form(text: str) -> None:
    with pytest.raises(ValueError, match="does not fit: ") as refusal:
        ModelSource.parse(text)
    assert "://" in str(refusal.value)


@given(CLAIM, PATH)
def test_claim_source_is_parsed_for_any_claim_and_path(claim: str, path: str) -> None:
    assert ModelSource.parse(f"pvc://{claim}/{path}") == ModelSource(Scheme.CLAIM, claim, path)


@given(SEGMENT, st.sampled_from(["", ":1.0", f"@sha256:{'0' * 64}"]), PATH)
def test_image_source_is_parsed_for_any_image_and_path(name: str, version: str, path: str) -> None:
    reference = f"registry:5000/{name}{version}"
    assert ModelSource.parse(f"image://{reference}#{path}") == ModelSource(Scheme.IMAGE, reference, path)


@given(SEGMENT, SEGMENT)
def test_hugging_face_source_is_parsed_for_any_repository(owner: str, name: str) -> None:
    parsed = ModelSource.parse(f"hf://{owner}/{name}")
    assert parsed == ModelSource(Scheme.HUGGING_FACE, f"{owner}/{name}", "")


@given(st.text(max_size=60))
def test_accepted_source_is_ascii_without_parent_path_for_any_text(text: str) -> None:
    for scheme in Scheme:
        fitting = False
        with contextlib.suppress(ValueError):
            source = ModelSource.parse(f"{scheme}://{text}")
            fitting = True
        if fitting:
            assert ".." not in source.path.split("/")
            assert text.isascii()
