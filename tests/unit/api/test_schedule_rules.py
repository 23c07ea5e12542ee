"""Problems of a schedule: one sentence each, with the path and the nearest fix."""

import pytest

from daybreak.api.gates.schedule_rules import problems
from daybreak.api.gates.sleep import AwakeWindow
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.validation import problems as all_problems
from tests.specs import manifest

WRITE = "write minute, hour, day of month, month and day of week, such as 0 8 * * MON-FRI"


def read_message(**fields: str) -> list[str]:
    return list(problems("schedule", [AwakeWindow.model_validate({"duration": "1h", **fields})]))


@pytest.mark.parametrize(
    "start",
    [
        "0 8 * * MON-FRI",
        "*/15 8-17 1,15 JAN-MAR *",
        "0 8 L * *",
        "0 8 * * mon#2",
        "0 0 29 2 *",
        "0 0 * 2 1#5",
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
def test_valid_schedule_has_no_problems(start: str, zone: str) -> None:
    assert read_message(start=start, timeZone=zone) == []


@pytest.mark.parametrize(
    ("start", "wrong"),
    [
        ("0 25 * * *", f"0 25 * * * has a bad hour; {WRITE}"),
        ("0 8 * * MONTAG", f"0 8 * * MONTAG has a bad day-of-week; {WRITE}"),
        ("60 8 * * *", f"60 8 * * * has a bad minute; {WRITE}"),
        ("0 8 31 2 *", f"0 8 31 2 * has a bad day-of-month; {WRITE}"),
        ("0 8 * 13 *", f"0 8 * 13 * has a bad month; {WRITE}"),
        ("0 0 8 * * *", f"0 0 8 * * * has 6 fields, not 5; {WRITE}"),
        ("@midnight", f"@midnight has 1 fields, not 5; {WRITE}"),
        ("* * * * /", f"* * * * / has a bad day-of-week; {WRITE}"),
        ("0 0 30,31 2 *", f"0 0 30,31 2 * has a bad day-of-month; {WRITE}"),
    ],
)
def test_invalid_start_is_rejected_with_cause(start: str, wrong: str) -> None:
    assert read_message(start=start) == [f"schedule[0].start: {wrong}"]


@pytest.mark.parametrize("zone", ["Europe", "../etc/localtime", "/etc/localtime", "a\0b", "Mars/Olympus"])
def test_unknown_time_zone_is_rejected(zone: str) -> None:
    (wrong,) = read_message(start="0 8 * * *", timeZone=zone)
    assert wrong.startswith(f"schedule[0].timeZone: there is no time zone {zone}; ")


def test_unknown_time_zone_is_reported_with_nearest_name() -> None:
    assert read_message(start="0 8 * * *", timeZone="Europe/Berlim") == [
        "schedule[0].timeZone: there is no time zone Europe/Berlim; did you mean Europe/Berlin?"
    ]


def test_service_validation_reports_schedule_problem() -> None:
    sleep = {
        "schedule": [{"start": "0 8 * * *", "duration": "1h"}, {"start": "0 24 * * *", "duration": "1h"}]
    }
    (wrong,) = all_problems(LLMService.from_manifest(manifest(sleep=sleep)))
    assert wrong.startswith("spec.sleep.schedule[1].start: 0 24 * * * has a bad hour; ")
