"""The excerpt of a failed run: the failed check, its assertion, and the lines of the logs about it."""

from scripts.ci.failures import excerpt

PYTEST = """\
story/test_01.py .F
=================================== FAILURES ===================================
______________________________ test_chat_answers _______________________________

    def test_chat_answers():
>       assert answer == 200
E       assert 503 == 200

story/test_01.py:7: AssertionError
----------------------------- Captured stdout call -----------------------------
a quiet line
----------------------------------- cluster ------------------------------------
$ kubectl logs deployment/daybreak
level=info all is well
level=error the gateway refused the connection
$ kubectl describe pods
  Warning  BackOff  2s  kubelet  Back-off pulling image
  Normal   Pulled   1s  kubelet  Container image is there
________________________________ test_the_other ________________________________

E       assert 1 == 2
=========================== short test summary info ============================
FAILED story/test_01.py::test_chat_answers - assert 503 == 200
FAILED story/test_01.py::test_the_other - assert 1 == 2
========================= 2 failed, 1 passed in 3.10s ==========================
"""


def test_excerpt_of_pytest_contains_names_assertion_and_error_lines() -> None:
    lines = excerpt(PYTEST)
    assert lines[:2] == [
        "FAILED story/test_01.py::test_chat_answers - assert 503 == 200",
        "FAILED story/test_01.py::test_the_other - assert 1 == 2",
    ]
    assert "E       assert 503 == 200" in lines
    assert "level=error the gateway refused the connection" in lines
    assert "  Warning  BackOff  2s  kubelet  Back-off pulling image" in lines


def test_excerpt_leaves_out_quiet_lines_and_later_failures() -> None:
    lines = excerpt(PYTEST)
    assert "level=info all is well" not in lines
    assert "  Normal   Pulled   1s  kubelet  Container image is there" not in lines
    assert "E       assert 1 == 2" not in lines


def test_excerpt_keeps_the_newest_lines_within_the_limit() -> None:
    many = "\n".join(f"error number {number}" for number in range(500))
    lines = excerpt(PYTEST.replace("level=info all is well", many), limit=40)
    assert len(lines) <= 40
    assert "E       assert 503 == 200" in lines
    assert "  Warning  BackOff  2s  kubelet  Back-off pulling image" in lines
    assert "error number 0" not in lines


def test_excerpt_of_another_program_is_its_end() -> None:
    log = "\n".join([*(f"line {number}" for number in range(300)), "mypy: error: no such module"])
    assert excerpt(log, limit=5) == [
        *(f"line {number}" for number in range(296, 300)),
        "mypy: error: no such module",
    ]
