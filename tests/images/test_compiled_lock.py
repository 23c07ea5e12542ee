"""CI sees that the long tests have compiled CUDA with the lock of images/ray as it is."""

from tests.images import compiled


def test_cuda_compile_record_matches_current_lock() -> None:
    assert compiled.RECORD.read_text().strip() == compiled.current(), (
        "images/ray/requirements.txt has changed since its CUDA packages were last compiled with: "
        "run `make test-long`, or `pytest tests/images/test_cuda.py`, and commit tests/images/compiled.sha256"
    )
