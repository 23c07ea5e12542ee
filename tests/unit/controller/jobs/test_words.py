"""The words that the base uses are words of every kind that becomes one job."""

from enum import StrEnum

import pytest

from daybreak.api.jobs.words import JobConditionType, JobPhase, JobReason
from daybreak.api.llmbatch.status import BatchConditionType, BatchPhase, BatchReason
from daybreak.api.llmbenchmark.status import BenchmarkConditionType, BenchmarkPhase, BenchmarkReason


@pytest.mark.parametrize("phases", [BatchPhase, BenchmarkPhase])
def test_phases_of_each_kind_equal_job_phases(phases: type[StrEnum]) -> None:
    assert list(phases) == list(JobPhase)


@pytest.mark.parametrize("types", [BatchConditionType, BenchmarkConditionType])
def test_condition_types_of_each_kind_start_with_job_condition_types(types: type[StrEnum]) -> None:
    assert list(map(str, types))[: len(JobConditionType)] == list(map(str, JobConditionType))


@pytest.mark.parametrize("reasons", [BatchReason, BenchmarkReason])
def test_reasons_of_each_kind_include_job_reasons(reasons: type[StrEnum]) -> None:
    assert set(map(str, JobReason)) <= set(map(str, reasons))
