"""Durations and quantities: they are read as Kubernetes reads them."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from daybreak.api.schema import scalars
from daybreak.api.schema.scalar_types import Labels, Quantity

UNITS = {"h": 3600, "m": 60, "s": 1}
FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
FACTORS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("2m30s", 150), ("999999h", 999999 * 3600)],
)
def test_duration_is_parsed_to_seconds(text: str, seconds: float) -> None:
    assert scalars.seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "s", "1s1m", "1.5h", "-1s", "1 s", "1s\n", "1d", "1000000s", "1h" * 20, "Auto"]
)
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        scalars.parse_duration(text)


@given(st.lists(st.integers(0, 999_999), min_size=3, max_size=3))
def test_a_duration_is_the_sum_of_its_parts(parts: list[int]) -> None:
    text = "".join(f"{part}{unit}" for part, unit in zip(parts, UNITS, strict=True))
    expected = sum(part * factor for part, factor in zip(parts, UNITS.values(), strict=True))
    assert scalars.parse_duration(text) == timedelta(seconds=expected)


@pytest.mark.parametrize(
    ("text", "number"), [("500m", "0.5"), ("4", "4"), ("1.5", "1.5"), ("16Gi", 16 * 2**30), ("0.5Gi", 2**29)]
)
def test_quantity_is_parsed_to_number(text: str, number: str | int) -> None:
    assert scalars.parse_quantity(text) == Decimal(number)


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1e3", "1E3", ".5", "5.", "1 Gi", "1Gi\n", "GiGi", "1g", "1KB", "9" * 33]
)
def test_invalid_quantity_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        scalars.parse_quantity(text)


@given(st.decimals(0, 10**6, places=3, allow_nan=False), st.sampled_from(sorted(FACTORS)))
def test_a_quantity_is_its_number_times_its_unit(number: Decimal, unit: str) -> None:
    assert scalars.parse_quantity(f"{number:f}{unit}") == number * FACTORS[unit]


@given(st.integers(0, 10**12))
def test_whole_number_is_accepted_as_quantity(number: int) -> None:
    assert TypeAdapter(Quantity).validate_python(number) == str(number)


@pytest.mark.parametrize("value", [True, 0.5, None, [], {}])
def test_value_of_other_type_is_rejected_as_quantity(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Quantity).validate_python(value)


@pytest.mark.parametrize("key", ["zone", "topology.kubernetes.io/zone", "example.com/a_b.c-d"])
def test_valid_label_key_is_accepted(key: str) -> None:
    assert TypeAdapter(Labels).validate_python({key: "a"}) == {key: "a"}


@pytest.mark.parametrize("key", ["", "a b", "/zone", "UPPER.com/zone", "a/b/c", "-a"])
def test_invalid_label_key_is_rejected(key: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Labels).validate_python({key: "a"})
