"""kopf watches objects, and does not write to them."""

import itertools

import kopf

from daybreak.handlers.registry import Forever, configure


def test_kopf_settings_disable_peering_posting_and_scanning() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.peering.standalone
    assert not settings.posting.enabled
    assert settings.scanning.disabled


def test_quiet_watch_ends_before_it_counts_as_dead() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    length = settings.watching.server_timeout
    assert length is not None
    assert str(length).isdecimal(), "kopf sends it as it is, and the API server takes whole seconds"
    assert length < settings.watching.inactivity_timeout <= 120


def test_retry_pauses_never_end_and_are_at_most_45_seconds() -> None:
    pauses = list(itertools.islice(Forever(), 100))
    assert len(pauses) == 100
    assert max(pauses) <= 45
    assert pauses[0] < 1
