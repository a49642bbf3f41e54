"""Kernel Tuner's files of the best results of several devices, and headers of them."""

import json

import pytest

from autotune import kernel_tuner
from autotune.errors import TunerError
from autotune.kernel_tuner.integration import (
    TuneResults,
    create_device_targets,
    get_objective_defaults,
    store_results,
)

PARAMS = {"x": [1, 2, 4]}
ROWS = [
    {"x": 1, "time": 1.0},
    {"x": 2, "time": 1.01},
    {"x": 4, "time": 2.0},
    {"x": 8, "time": "-"},
]


def store(path, device, rows=ROWS, **options):
    env = {"device_name": device}
    store_results(path, "add", "text", PARAMS, (64, 2), rows, env, **options)
    return json.loads(path.read_text())["data"]


def test_what_is_near_the_best_is_kept_for_each_device(tmp_path):
    path = tmp_path / "best.json"
    assert [each["x"] for each in store(path, "NVIDIA A100 (sm_80)")] == [1, 2]
    both = store(path, "cpu", [{"x": 4, "time": 5.0}])
    assert [each["device_name"] for each in both] == ["NVIDIA A100 (sm_80)"] * 2 + ["cpu"]
    assert both[0]["problem_size"] == "64x2"
    again = store(path, "cpu", [{"x": 2, "time": 3.0}])
    assert [each["x"] for each in again if each["device_name"] == "cpu"] == [2]


def test_a_header_defines_the_best_of_each_device_and_of_all(tmp_path):
    path, header = tmp_path / "best.json", tmp_path / "best.h"
    store(path, "NVIDIA A100 (sm_80)")
    store(path, "cpu", [{"x": 2, "time": 3.0}])
    create_device_targets(header, path)
    text = header.read_text()
    _, a100, cpu, everywhere = text.replace("#elif", "#if").replace("#else", "#if").split("#if")
    assert a100.startswith(" defined(TARGET_NVIDIA_A100_sm_80)")
    assert "#define x 1\n" in a100
    assert cpu.startswith(" defined(TARGET_cpu)")
    assert "#define x 2\n" in cpu
    assert "#define x 2\n" in everywhere


def two_sizes(path):
    """Store results of which 2 is best for one size, and 4 is near the best for both."""
    small = [{"x": 2, "time": 1.0}, {"x": 4, "time": 1.01}]
    large = [{"x": 1, "time": 9.0}, {"x": 4, "time": 9.1}]
    for size, rows in ((10, small), ((20, 20), large)):
        store_results(path, "add", "text", PARAMS, size, rows, {"device_name": "Some GPU"})


def test_a_device_has_what_is_best_over_its_problem_sizes(tmp_path):
    path, header = tmp_path / "best.json", tmp_path / "best.h"
    two_sizes(path)
    create_device_targets(header, path)
    of_device, of_all = header.read_text().split("#else")
    assert "#define x 4\n" in of_device
    assert "#define x 4\n" in of_all


@pytest.mark.parametrize(
    ("device", "size", "best"),
    [
        ("Some GPU", 10, 2),
        ("Some-GPU", (20, 20), 1),
        ("Some GPU", 30, 4),
        ("Some GPU", None, 4),
        ("another", 10, 4),
    ],
)
def test_the_best_is_that_of_the_device_and_size_or_else_of_all(tmp_path, device, size, best):
    path = tmp_path / "best.json"
    two_sizes(path)
    assert TuneResults(path).get_best_config(device, size) == {"x": best}


def test_results_without_their_objective_are_refused(tmp_path):
    path = tmp_path / "best.json"
    two_sizes(path)
    path.write_text(path.read_text().replace('"time":', '"_":'))
    with pytest.raises(TunerError, match="has no results with 'time'"):
        TuneResults(path)


def test_more_of_a_rate_is_better(tmp_path):
    assert get_objective_defaults(None) == ("time", False)
    assert get_objective_defaults("GFLOP/s") == ("GFLOP/s", True)
    assert get_objective_defaults("GFLOP/s", False) == ("GFLOP/s", False)
    rows = [{"x": 1, "GB/s": 10.0}, {"x": 2, "GB/s": 20.0}]
    assert [each["x"] for each in store(tmp_path / "r.json", "cpu", rows, objective="GB/s")] == [2]


def test_files_of_something_else_are_left_alone(tmp_path):
    path = tmp_path / "best.json"
    with pytest.raises(TunerError, match="none of 1 results has 'time'"):
        store(path, "cpu", [{"x": 1, "time": "-"}])
    store(path, "cpu")
    before = path.read_text()
    with pytest.raises(TunerError, match=r"has results of 'add' with parameters \['x'\], not of"):
        store_results(path, "mul", "text", PARAMS, 64, ROWS, {})
    assert path.read_text() == before
    path.write_text("[]")
    with pytest.raises(TunerError, match="holds no results of store_results"):
        store(path, "cpu")
    with pytest.raises(TunerError, match="cannot read the results"):
        create_device_targets(tmp_path / "h.h", tmp_path / "none.json")


@pytest.mark.parametrize("rows", [[1], [{"x": 1, "time": 1.0}]])
def test_rows_that_are_none_of_a_device_are_no_results(tmp_path, rows):
    path = tmp_path / "best.json"
    content = {"kernel_name": "add", "tunable_parameters": ["x"], "data": rows}
    path.write_text(json.dumps(content))
    with pytest.raises(TunerError, match="holds no results of store_results"):
        store(path, "cpu")
    with pytest.raises(TunerError, match="holds no results of store_results"):
        create_device_targets(tmp_path / "h.h", path)


def test_what_is_no_number_is_no_best_and_none_of_zero_divides(tmp_path):
    path, header = tmp_path / "best.json", tmp_path / "best.h"
    rows = [{"x": 1, "time": float("nan")}, {"x": 2, "time": 0.0}]
    assert [each["x"] for each in store(path, "cpu", rows)] == [2]
    create_device_targets(header, path)
    assert "#define x 2\n" in header.read_text()


def test_a_header_has_booleans_as_kernels_are_tuned_with_them(tmp_path):
    path, header = tmp_path / "best.json", tmp_path / "best.h"
    store(path, "cpu", [{"x": True, "time": 1.0}])
    create_device_targets(header, path)
    assert "#define x 1\n" in header.read_text()


def test_they_are_functions_of_the_package_too():
    assert kernel_tuner.store_results is store_results
    assert kernel_tuner.create_device_targets is create_device_targets
