"""Object names: within the limits of Kubernetes, and different for different models."""

import re

from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.common import names, volume_names
from daybreak.api.llmservice.definition import NAME_LIMIT

MODEL = st.from_regex(r"\A[A-Za-z0-9]([A-Za-z0-9._/-]{0,94}[A-Za-z0-9])?\Z")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_LIMIT = 63


@given(MODEL)
def test_a_worker_group_is_a_short_dns_label(model: str) -> None:
    group = names.worker_group(model)
    assert DNS_LABEL.fullmatch(group)
    assert len(group) <= names.GROUP_NAME_LIMIT


@given(st.lists(MODEL, min_size=2, max_size=2, unique=True))
def test_two_models_never_share_a_group(models: list[str]) -> None:
    assert len(set(map(names.worker_group, models))) == 2


def test_similar_names_have_different_worker_groups() -> None:
    alike = ["a.b", "a-b", "a/b", "A-B", "a--b", "a_b"]
    assert len(set(map(names.worker_group, alike))) == len(alike)


def test_plain_model_name_is_unchanged_as_worker_group() -> None:
    assert names.worker_group("qwen-7b") == "qwen-7b"


def test_object_names_of_longest_service_name_fit_label_limit() -> None:
    service = "n" * NAME_LIMIT
    for name in (
        names.ray_service(service),
        names.front_service(service),
        names.service_account(service),
        names.network_policy(service),
        names.disruption_budget(service),
    ):
        assert len(name) <= LABEL_LIMIT
    assert all(len(value) <= LABEL_LIMIT for value in names.labels(service, "worker").values())


def test_different_model_names_can_share_serve_deployment_name() -> None:
    assert names.serve_deployment("org/model-1.5") == "LLMServer:org--model-1_5"
    assert names.serve_deployment("a/b") == names.serve_deployment("a--b")


def test_service_url_is_openai_base_url() -> None:
    assert names.url("qwen", "models") == "http://qwen.models.svc/v1"


@given(
    st.lists(
        st.tuples(st.sampled_from(["n" * NAME_LIMIT, "m" * 23, "a"]), MODEL),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
def test_cache_claim_names_are_short_and_unique(owners: list[tuple[str, str]]) -> None:
    claims = [volume_names.cache_claim(service, model) for service, model in owners]
    assert len(set(claims)) == 2
    assert all(len(claim) <= LABEL_LIMIT and DNS_LABEL.fullmatch(claim) for claim in claims)


def test_short_cache_claim_name_contains_service_and_model() -> None:
    assert volume_names.cache_claim("chat", "qwen-7b") == "chat-qwen-7b-weights"
