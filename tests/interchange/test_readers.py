"""Files that other tuners wrote become records that say the same."""

import gzip
import json
import math
from pathlib import Path

import pytest

from autotune.interchange import (
    ForeignFileError,
    import_files,
    read_foreign,
    read_kernel_tuner,
    read_t1,
    read_t4,
    read_triton,
    records_of,
)
from autotune.measure.types import MeasureErrorNo
from autotune.record import decode, encode
from autotune.record.history import ApplyHistoryBest
from autotune.target import Target

DATA = Path(__file__).parents[1] / "data" / "interchange"
CACHES = DATA / "kernel_tuner"
TRITON = next((DATA / "triton").rglob("*.autotune.json"))


def entries(name):
    return list(json.loads((CACHES / name).read_text())["cache"].values())


# ---- Kernel Tuner


def test_a_cache_of_kernel_tuner_becomes_records_of_its_medians_in_seconds():
    path = CACHES / "vector_add_RTX_A4000.json"
    (found,) = import_files([path])
    told = entries(path.name)
    assert len(found.records) == len(told) == 15
    for (inp, result), entry in zip(found.records, told, strict=True):
        assert inp.config["block_size_x"].val == entry["block_size_x"]
        assert result.seconds == pytest.approx(sorted(entry["times"])[3] / 1e3)
        assert result.evidence.samples == 7
        assert result.evidence.others["imported"]["time"] == entry["time"]
        assert result.all_cost == pytest.approx(
            sum(value for key, value in entry.items() if key.endswith("_time")) / 1e3
        )
    assert str(found.target) == "cuda -keys=cuda,gpu -model=nvidia-rtx-a4000"


def test_the_index_is_that_of_a_template_with_the_same_knobs():
    from autotune.task import ConfigSpace

    path = CACHES / "vector_add_c.json"
    space = ConfigSpace()
    for name, values in json.loads(path.read_text())["tune_params"].items():
        space.define_knob(name, values)
    (found,) = import_files([path])
    assert [inp.config.index for inp, _ in found.records] == [0, 1, 2, 3]
    for inp, _ in found.records:
        mine = space.get(inp.config.index).to_json_dict()["entity"]
        assert inp.config.to_json_dict()["entity"] == mine


def test_times_of_day_are_kept_in_seconds_since_the_epoch():
    (found,) = import_files([CACHES / "vector_add_c.json"])
    assert found.records[0][1].timestamp == pytest.approx(1795299_000, rel=1e-2)
    assert not found.undated


def test_the_cache_of_a_killed_run_is_read_to_where_it_ends():
    trials = read_kernel_tuner(CACHES / "vector_add_killed.json")
    assert len(trials.trials) == 1
    assert trials.problems == ["the run did not end; its cache was left open"]


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_a_cache_cut_off_in_an_entry_keeps_the_entries_before(tmp_path, cut):
    text = (CACHES / "vector_add_c.json").read_text()
    path = tmp_path / "torn.json"
    path.write_text(text.rstrip("}\n")[:-cut])
    trials = read_kernel_tuner(path)
    assert len(trials.trials) == 3
    assert "the run did not end" in trials.problems[0]


def test_a_cache_whose_last_entry_ends_in_a_brace_is_closed_rightly(tmp_path):
    open_text = (CACHES / "vector_add_killed.json").read_text().rstrip().rstrip(",")
    path = tmp_path / "open.json"
    path.write_text(open_text[:-1] + ', "object": {}}')
    assert len(read_foreign(path).trials) == 1


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("CompilationFailedConfig", MeasureErrorNo.COMPILE_DEVICE),
        ("RuntimeFailedConfig", MeasureErrorNo.RUNTIME_DEVICE),
        ("InvalidConfig", MeasureErrorNo.INSTANTIATION_ERROR),
        ("ErrorConfig", MeasureErrorNo.UNKNOWN_ERROR),
    ],
)
def test_a_failure_keeps_its_kind_and_its_word(tmp_path, word, number):
    text = (CACHES / "convolution_failed.json").read_text()
    path = tmp_path / "x.json"
    path.write_text(text.replace("CompilationFailedConfig", word))
    (found,) = import_files([path])
    ((_, result),) = found.records
    assert (result.error_no, result.error_msg, result.costs) == (number, word, ())
    assert str(found.target) == "c -keys=cpu"


def test_a_failure_beside_another_objective_is_one_too(tmp_path):
    text = (CACHES / "convolution_failed.json").read_text()
    path = tmp_path / "x.json"
    marks = '"energy": "RuntimeFailedConfig", "__error__": "RuntimeFailedConfig"'
    path.write_text(text.replace('"time": "CompilationFailedConfig"', marks))
    (trial,) = read_kernel_tuner(path).trials
    assert trial.error_no == MeasureErrorNo.RUNTIME_DEVICE


def test_the_huge_time_of_old_versions_is_a_failure(tmp_path):
    text = (CACHES / "convolution_failed.json").read_text()
    path = tmp_path / "x.json"
    path.write_text(text.replace('"CompilationFailedConfig"', "1e20"))
    (trial,) = read_kernel_tuner(path).trials
    assert trial.error_no == MeasureErrorNo.UNKNOWN_ERROR
    assert "1e+20 ms" in trial.error_msg


def test_a_packed_cache_is_unpacked(tmp_path):
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress((CACHES / "vector_add_c.json").read_bytes()))
    assert len(read_foreign(path).trials) == 4


# ---- Triton


def test_triton_s_medians_quantiles_and_failures_are_read():
    trials = read_triton(TRITON)
    assert (trials.name, trials.args[:2]) == ("add_kernel", (1024, 512))
    first, _, refused, _ = records_of(trials)
    assert first[1].seconds == pytest.approx(23.1e-6)
    # The quantiles of its file are 2% below and 5% above the median.
    assert first[1].spread == pytest.approx(0.07 / 1.683, rel=1e-3)
    assert [*first[0].config] == [
        "BLOCK_SIZE_M", "BLOCK_SIZE_N", "num_warps", "num_ctas", "num_stages",
    ]  # fmt: skip
    assert refused[1].error_no == MeasureErrorNo.COMPILE_DEVICE
    assert "shared memory" in refused[1].error_msg


def test_a_folder_of_triton_s_is_searched(tmp_path):
    (found,) = import_files([DATA / "triton"])
    assert found.tool == "Triton"
    with pytest.raises(ForeignFileError, match=r"TRITON_CACHE_AUTOTUNING=1"):
        list(import_files([tmp_path]))


def test_one_time_in_place_of_quantiles_is_read(tmp_path):
    data = json.loads(TRITON.read_text())
    data["configs_timings"] = [[row[0], row[1][0]] for row in data["configs_timings"]]
    path = tmp_path / "k.autotune.json"
    path.write_text(json.dumps(data))
    trials = read_triton(path).trials
    assert [one.error_no for one in trials] == [0, 0, 3, 0]
    assert trials[0].spread is None


# ---- T1 and T4


def test_results_in_t4_are_those_of_the_cache():
    t4 = records_of(read_t4(DATA / "t4" / "vector_add_c.json"), name="v", args=[1], target="c")
    cache = records_of(read_kernel_tuner(CACHES / "vector_add_c.json"), name="v", args=[1])
    assert [one[1].costs for one in t4] == [one[1].costs for one in cache]
    assert [one[0].config.index for one in t4] == [one[0].config.index for one in cache]


def test_what_a_file_of_t4_does_not_say_has_to_be_given():
    with pytest.raises(ForeignFileError.__mro__[1], match=r"--target"):
        list(import_files([DATA / "t4" / "vector_add_c.json"]))
    with pytest.raises(ForeignFileError.__mro__[1], match=r"--task NAME"):
        list(import_files([DATA / "t4" / "vector_add_c.json"], target="c"))


@pytest.mark.parametrize(
    ("unit", "factor"), [("nanoseconds", 1e-9), ("microseconds", 1e-6), ("seconds", 1.0)]
)
def test_the_unit_of_t4_is_believed(tmp_path, unit, factor):
    data = json.loads((DATA / "t4" / "vector_add_c.json").read_text())
    data["metadata"]["timeunit"] = unit
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    runtimes = data["results"][0]["times"]["runtimes"]
    trials = read_t4(path)
    assert trials.trials[0].samples_s == pytest.approx([one * factor for one in runtimes])
    assert trials.unit == unit


def test_a_t1_file_gives_names_values_and_conditions():
    problem = read_t1(DATA / "t1" / "convolution.json")
    assert (problem.name, problem.args) == ("convolution_kernel", (4096, 4096))
    assert problem.knobs["tile_size_x"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [one.text for one in problem.conditions][2] == "(tile_size_x * tile_size_y) < 30"


def test_a_template_takes_its_knobs_and_conditions_from_a_t1_file():
    from autotune.task import ConfigSpace

    problem = read_t1(DATA / "t1" / "convolution.json")
    space = ConfigSpace()
    problem.define(space)
    counted = sum(
        64 <= x * y <= 1024 and a * b < 30
        for x in problem.knobs["block_size_x"]
        for y in problem.knobs["block_size_y"]
        for a in range(1, 9)
        for b in range(1, 9)
    )
    assert len(space) == 4 * counted


def test_a_t1_file_gives_the_order_of_the_knobs_to_results(tmp_path):
    problem = read_t1(DATA / "t1" / "convolution.json")
    choices = {name: values[-1] for name, values in reversed(problem.knobs.items())}
    result = {"configuration": choices, "times": {"runtimes": [1.0]}, "invalidity": "correct",
              "correctness": 1}  # fmt: skip
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"results": [result]}))
    (found,) = import_files([path], t1=problem, target="cuda")
    ((inp, _),) = found.records
    assert inp.task.workload == ("convolution_kernel", 4096, 4096)
    assert [*inp.config] == [*problem.knobs]
    assert inp.config.index == math.prod(map(len, problem.knobs.values())) - 1


def test_results_of_another_problem_than_the_t1_file_s_are_refused():
    problem = read_t1(DATA / "t1" / "convolution.json")
    with pytest.raises(ForeignFileError.__mro__[1], match="another problem"):
        list(import_files([DATA / "t4" / "vector_add_c.json"], t1=problem, target="c"))


# ---- what they become


@pytest.mark.parametrize("path", sorted(CACHES.glob("*.json")), ids=lambda path: path.stem)
def test_records_survive_a_log(path):
    (found,) = import_files([path], target="cuda -arch=sm_86")
    for inp, result in found.records:
        assert decode(encode(inp, result)) == (inp, result)


def test_what_was_imported_is_replayed():
    (found,) = import_files([CACHES / "vector_add_c.json"])
    with ApplyHistoryBest(found.records) as history, Target("c") as target:
        config = history.query(target, ("vector_add", 65536))
    assert config["UNROLL"].val == 2


def test_undated_trials_end_with_the_files_last_change(tmp_path):
    data = json.loads((CACHES / "vector_add_c.json").read_text())
    for entry in data["cache"].values():
        del entry["timestamp"]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    (found,) = import_files([path])
    ends = [result.timestamp for _, result in found.records]
    assert found.undated
    assert ends[-1] == pytest.approx(path.stat().st_mtime)
    assert ends[1] - ends[0] == pytest.approx(found.records[1][1].all_cost, abs=1e-3)


@pytest.mark.parametrize(
    ("device", "target"),
    [
        ("NVIDIA A100-PCIE-40GB", "cuda -keys=cuda,gpu -model=nvidia-a100-pcie-40gb"),
        ("AMD Instinct MI250X", "rocm -keys=rocm,gpu -model=amd-instinct-mi250x"),
        ("", "c -keys=cpu"),
    ],
)
def test_the_name_of_a_device_tells_the_target(tmp_path, device, target):
    data = json.loads((CACHES / "vector_add_c.json").read_text())
    data["device_name"] = device
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    (found,) = import_files([path])
    assert str(found.target) == target
