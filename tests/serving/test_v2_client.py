"""`Model` behind a public client of the Open Inference Protocol V2 on a real Ray Serve."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from tests.serving.conftest import post

pytestmark = [pytest.mark.xdist_group("serving"), pytest.mark.timeout(600)]
ROWS = np.array([[1, 2], [3, 4]], dtype=np.float32)


@contextmanager
def client(serving: str, name: str) -> Iterator[triton.InferenceServerClient]:
    """Close the client in its own thread: the garbage collector may run in a thread without gevent."""
    with triton.InferenceServerClient(f"{serving}/{name}", concurrency=8) as server:
        yield server


def tensor(name: str, values: np.ndarray, binary: bool = True) -> triton.InferInput:
    kind = {"f": "FP32", "O": "BYTES", "i": "INT64"}[values.dtype.kind]
    requested = triton.InferInput(name, list(values.shape), kind)
    requested.set_data_from_numpy(values, binary_data=binary)
    return requested


def text(written: str) -> triton.InferInput:
    return tensor("text", np.array([written], dtype=object))


def test_v2_client_reads_health_and_metadata(serving: str) -> None:
    with client(serving, "whole") as whole:
        assert whole.is_server_live()
        assert whole.is_server_ready()
        assert whole.is_model_ready("whole")
        assert whole.is_model_ready("whole", "1")
        assert not whole.is_model_ready("whole", "2")
        assert whole.get_server_metadata()["extensions"] == ["binary_tensor_data"]
        found = whole.get_model_metadata("whole")
    assert found["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert [each["name"] for each in found["outputs"]] == ["sums", "names"]


@pytest.mark.parametrize("sent_binary", [True, False])
@pytest.mark.parametrize("asked_binary", [True, False])
def test_inference_accepts_and_returns_binary_and_json_tensors(
    serving: str, sent_binary: bool, asked_binary: bool
) -> None:
    desired = [triton.InferRequestedOutput(name, binary_data=asked_binary) for name in ("sums", "names")]
    with client(serving, "whole") as whole:
        found = whole.infer("whole", [tensor("x", ROWS, sent_binary)], outputs=desired, request_id="mine")
    assert found.as_numpy("sums").tolist() == [6, 14]
    assert [each if isinstance(each, str) else each.decode() for each in found.as_numpy("names")] == [
        "row-0",
        "row-1",
    ]
    assert found.get_response()["id"] == "mine"
    assert ("parameters" in found.get_output("sums")) == asked_binary


@pytest.mark.parametrize(
    ("model", "values", "status", "message"),
    [
        ("whole", np.zeros((1, 3), np.float32), "400", "FP32[-1, 2]"),
        ("whole", np.zeros((1, 2), np.int64), "400", "INT64[1, 2]"),
        ("nobody", ROWS, "404", "there is no model nobody"),
        ("whole", np.full((1, 2), np.nan, np.float32), "500", "not a number"),
    ],
)
def test_failed_inference_returns_status_and_cause(
    serving: str, model: str, values: np.ndarray, status: str, message: str
) -> None:
    with client(serving, "whole") as whole, pytest.raises(InferenceServerException) as caught:
        whole.infer(model, [tensor("x", values)])
    assert caught.value.status() == status
    assert message in caught.value.message()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "no JSON"),
        ({}, "no inputs"),
        ({"inputs": [{"name": "y", "datatype": "FP32", "shape": [1], "data": [1]}]}, "there is no input y"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1]}]}, "1 elements"),
        (
            {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2], "data": [1, 2]}]},
            "no list of sizes",
        ),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": ["a", "b"]}]}, "not FP32"),
        ({"inputs": [{"name": "x", "datatype": "ODD", "shape": [1, 2], "data": [1, 2]}]}, "datatypes"),
        (
            {
                "parameters": {"refuse": True},
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}],
            },
            "refused by the model",
        ),
    ],
)
def test_invalid_body_returns_400_with_reason(serving: str, body: object, message: str) -> None:
    status, answer = post(f"{serving}/whole/v2/models/whole/infer", body)
    assert (status, message in answer["error"]) == (400, True), answer


def test_explain_returns_output_or_404_if_model_has_no_explainer(serving: str) -> None:
    requested = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [2.0, 2.0, 2.0]}]}
    status, found = post(f"{serving}/explained/v2/models/scores/explain", requested)
    assert (status, found["outputs"][0]["data"]) == (200, [2.0, -1.0, 0.5])
    status, found = post(f"{serving}/classifier/v2/models/classifier/explain", requested)
    assert status == 404


def test_batch_joins_rows_of_requests_and_only_bad_request_fails(serving: str) -> None:
    def ask(number: int) -> list[int] | str:
        rows = np.full((1, 2), np.nan if number == 5 else number, np.float32)
        with client(serving, "batched") as batched:
            try:
                found = batched.infer("batched", [tensor("x", rows)])
            except InferenceServerException as error:
                return str(error.status())
            return [int(each) for each in found.as_numpy("output")[0]]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, range(16)))
    assert found[5] == "500"
    good = [each for each in found if not isinstance(each, str)]
    assert [each[0] for each in good] == [n for n in range(16) if n != 5]
    assert max(each[1] for each in good) > 1
    with client(serving, "batched") as batched:
        large = batched.infer("batched", [tensor("x", np.zeros((20, 2), np.float32))])
    assert large.as_numpy("output")[:, 1].tolist() == [20] * 20


def test_model_versions_share_requests_by_weight_and_load_and_unload(serving: str) -> None:
    with client(serving, "versions") as server:

        def requested(version: str = "") -> str:
            found = server.infer("model", [text("t")], model_version=version).as_numpy("output")[0]
            return str(found.decode())

        assert requested("2") == "model 2 b t"
        shares = Counter(requested()[:7] for _ in range(80))
        assert shares["model 1"] > shares["model 2"] > 0
        states = {each["version"]: each["state"] for each in server.get_model_repository_index()}
        assert states == {"1": "READY", "2": "READY", "3": "UNAVAILABLE"}

        only = '{"version_policy": {"specific": {"versions": [2]}}}'
        server.load_model("model", config=only)
        assert {requested()[:7] for _ in range(10)} == {"model 2"}
        assert not server.is_model_ready("model", "1")
        with pytest.raises(InferenceServerException, match="there are no weights"):
            server.load_model("model", config=only.replace("2", "3"))
        assert requested() == "model 2 b t"
        server.unload_model("model")
        assert server.is_server_ready()
        assert not server.is_model_ready("model")
        server.load_model("model", config=only.replace("2", "1, 2"))
        assert requested("1") == "model 1 a t"


def test_model_unload_returns_403_without_model_control(serving: str) -> None:
    status, answer = post(f"{serving}/whole/v2/repository/models/whole/unload", {})
    assert (status, "modelControl" in answer["error"]) == (403, True)


def test_the_sample_classifier_answers_for_each_row(serving: str) -> None:
    rows = {"name": "x", "datatype": "FP32", "shape": [2, 64], "data": [0.0] * 128}
    status, found = post(f"{serving}/classifier/v2/models/classifier/infer", {"inputs": [rows]})
    outputs = {each["name"]: each["data"] for each in found["outputs"]}
    # Of nothing, all ten classes are as likely.
    assert (status, outputs["label"]) == (200, [0, 0])
    assert outputs["certainty"] == pytest.approx([0.1, 0.1])


def changes(server: triton.InferenceServerClient, name: str) -> list[str]:
    """Return the models that the replica has loaded (+) and unloaded (-) so far, as a model reports it."""
    found = server.infer(name, [text("t")]).as_numpy("output")[0]
    return str(found.decode()).split()


def test_a_replica_keeps_the_models_that_were_used_last(serving: str) -> None:
    with client(serving, "evicted") as server:
        for name in ("m0", "m1", "m0", "m2"):
            changes(server, name)
        # m1 was used longest ago. An unload is reported a moment later.
        for _ in range(100):
            if "-m1" in (observed := changes(server, "m0")):
                break
            time.sleep(0.1)
        assert observed.count("-m1") == 1
        assert [each for each in observed if each.startswith("+")] == ["+m0", "+m1", "+m2"]
        assert "-m0" not in observed
        assert changes(server, "m1").count("+m1") == 2, "what has gone is loaded again"


def test_replica_serves_many_models_and_reports_missing_models(serving: str) -> None:
    with client(serving, "many") as server:
        for name in ("m0", "m1", "m2", "m3", "m4", "m0"):
            found = server.infer(name, [text("t")]).as_numpy("output")[0]
            assert found.decode() == f"{name} 1 s{name[1]} t"
        with pytest.raises(InferenceServerException, match="there are no weights"):
            server.infer("bad", [text("t")])
        with pytest.raises(InferenceServerException, match="there is no model m9"):
            server.infer("m9", [text("t")])
