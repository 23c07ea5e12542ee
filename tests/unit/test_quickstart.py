"""`make up`: what it makes of what it is told."""

import pytest

from cluster.errors import ClusterError
from quickstart.install import chart_image


@pytest.mark.parametrize(
    ("reference", "values"),
    [
        ("daybreak:0.1.0", ["image.repository=daybreak", "image.tag=0.1.0"]),
        ("registry:5000/a/b:v1", ["image.repository=registry:5000/a/b", "image.tag=v1"]),
        ("registry:5000/a@sha256:12", ["image.repository=registry:5000/a", "image.digest=sha256:12"]),
    ],
)
def test_an_image_for_the_chart(reference: str, values: list[str]) -> None:
    assert chart_image(reference)[1::2] == values


@pytest.mark.parametrize("reference", ["daybreak", "registry:5000/daybreak"])
def test_an_image_without_a_tag_is_refused(reference: str) -> None:
    with pytest.raises(ClusterError, match=f"{reference}:TAG"):
        chart_image(reference)
