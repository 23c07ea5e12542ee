"""HAProxy's variables of a request: each has a description, is set, and is read."""

import pytest

from scripts.docs.gateway_variables import FOLDERS, meanings, uses


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_variable_has_a_meaning(folder: str) -> None:
    assert sorted(uses(folder)) == sorted(meanings()[folder])


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_variable_is_set_and_read(folder: str) -> None:
    found = uses(folder)
    assert len(found) > 20, "the files are found"
    assert [name for name, use in found.items() if not use.set] == []
    assert [name for name, use in found.items() if not use.read] == []
