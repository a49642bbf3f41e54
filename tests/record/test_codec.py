"""Lines of logs: what AutoTVM wrote, what we write, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import RecordError
from autotune.measure.evidence import Energy, Evidence
from autotune.measure.evidence_json import to_json
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.record import decode, encode, load_from_file, measure_str_key
from autotune.target import Target
from autotune.task import ConfigEntity, Task
from tests.record.records import (
    CONV_ARGS,
    CONV_CONFIG,
    TVM_FAILED_ROW,
    TVM_ROW,
    failed,
    good,
    make_input,
    row,
)


def energy_json(energy):
    return to_json(Evidence(energy=energy))["energy"]


LOGS = Path(__file__).parent.parent / "data" / "logs"


def test_a_row_is_written_as_autotvm_writes_it():
    assert encode(make_input(), good(0.00012345, 0.00012351)) == TVM_ROW
    assert encode(make_input(), failed(1)) == TVM_FAILED_ROW


def test_a_row_of_autotvm_is_read():
    inp, result = decode(TVM_ROW)
    assert inp.task.workload == ("tutorial/conv2d_no_batching", *CONV_ARGS)
    assert inp.target.arch == "sm_90"
    assert inp.config.to_json_dict() == CONV_CONFIG
    assert inp.config.cost == pytest.approx(0.00012348)
    assert result == MeasureResult((0.00012345, 0.00012351), 0, 3.21, 1700000000.5)


def test_a_failed_trial_has_no_costs_but_its_message():
    _, result = decode(TVM_FAILED_ROW)
    assert (result.costs, result.error_no, result.ok) == ((), 1, False)
    text = encode(make_input(), failed(3, "ptxas: too many registers\nline 2"))
    assert decode(text)[1].error_msg == "ptxas: too many registers\nline 2"
    assert json.loads(text)["result"][0] == [1e9]


def test_energy_is_a_key_that_older_readers_keep_as_it_is():
    energy = Energy(0.5, 250.0, 100, 0.2, meter="NVML energy")
    text = encode(make_input(), good(0.00012345, 0.00012351, energy=energy_json(energy)))
    assert text == TVM_ROW[:-1] + (
        ', "energy": {"joules": 0.5, "watts": 250.0, "runs": 100, "seconds": 0.2, '
        '"meter": "NVML energy"}}'
    )
    assert decode(text)[1].evidence.energy == energy
    beaten = encode(make_input(), good(1.0, energy={"at_least": 3.0, "meter": "NVML energy"}))
    assert beaten.endswith('"energy": {"at_least": 3.0, "meter": "NVML energy"}}')
    assert decode(beaten)[1].joules is None


@pytest.mark.parametrize("other", [3, "much", {}, {"joules": 0}, {"joules": -1}, {"joules": "1"}])
def test_what_others_call_energy_is_kept_as_theirs(other):
    _, result = decode(encode(make_input(), good(1e-4, energy=other)))
    assert result.evidence.energy is None
    assert result.extra == {"energy": other}


def test_what_we_know_beyond_autotvm_stands_in_keys_of_its_own():
    extra = {"resources": {"registers": 64}, "device": "H200", "noise": np.float64(0.5)}
    text = encode(make_input(), good(1e-4, **extra))
    assert text.startswith(TVM_ROW[: TVM_ROW.index('"result"')])
    assert list(json.loads(text))[5:] == ["resources", "device", "noise"]
    assert decode(text)[1].extra == {**extra, "noise": 0.5}
    with pytest.raises(RecordError, match="extra keys config would hide"):
        encode(make_input(), good(1e-4, config=1))


def test_comments_and_empty_lines_are_no_records():
    assert decode("# pre-tuned") is None
    assert decode("  \n") is None


def test_a_mark_of_the_byte_order_costs_no_record():
    assert decode("\ufeff" + TVM_ROW)[1] == decode(TVM_ROW)[1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"input": ["cuda"', "not JSON"),
        ("garbage", "not JSON"),
        ("[1, 2]", "expected a JSON object, got list"),
        ("{}", "unknown version None"),
        (row(version=0.3), "unknown version 0.3"),
        (row(input=["cuda"]), "not a record"),
        (row(input=["cuda", "t", 5, {}]), "not a record"),
        (row(input=["quantum", "t", [], {}]), "unknown kind 'quantum'"),
        (row(config={"index": 0, "code_hash": None, "entity": [["a", "zz", 1]]}), "knob 'a'"),
        (row(config={"index": 0, "code_hash": None, "entity": [["a", "sp", "x"]]}), "knob 'a'"),
        (row(result=[[1], 0]), "not a record"),
        (row(result=[["x"], 0, 1, 1]), "not a record"),
        (row(result=[[1e9], 42, 1, 1]), "42 is not a valid MeasureErrorNo"),
        (row(result=[[1e9], "4", 1, 1]), "'4' is not a valid MeasureErrorNo"),
        (row(result=[[], 0, 1, 1]), "a trial that did not fail has times, not []"),
        (row(result=[[float("nan")], 0, 1, 1]), "has times, not [nan]"),
        (row(result=[[-1.0], 0, 1, 1]), "has times, not [-1.0]"),
        (
            row(config={"index": "0", "code_hash": None, "entity": []}),
            "is a whole number, not '0'",
        ),
        (
            row(config={"index": 1.0, "code_hash": None, "entity": []}),
            "is a whole number, not 1.0",
        ),
        (row(config={"index": None, "code_hash": None, "entity": []}), "whole number, not None"),
        ('{"i": [["k", "llvm"], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6"}', "auto_scheduler"),
        ('{"i": ["cuda"], "r": [[1], 0, 1, 1], "v": 0.1}', "not a record"),
    ],
)
def test_a_line_that_is_no_record_says_why(text, reason):
    with pytest.raises(RecordError) as caught:
        decode(text)
    assert reason in str(caught.value)


def test_what_has_no_json_form_cannot_be_written():
    config = {"index": 0, "code_hash": None, "entity": [["k", "ot", {1, 2}]]}
    with pytest.raises(RecordError, match="no JSON form: set"):
        encode(make_input(config=config), good(1.0))
    with pytest.raises(RecordError, match="written as 'json'"):
        encode(make_input(), good(1.0), protocol="pickle")


def test_every_row_of_a_published_log_survives_reading_and_writing():
    lines = (LOGS / "tophub_cuda_v0.10.log").read_text().splitlines()
    assert len(lines) == 825
    for line in lines:
        before, after = json.loads(line), json.loads(encode(*decode(line)))
        assert after["config"] == before["config"]
        assert after["result"] == before["result"]
        assert after["input"][1:] == before["input"][1:]
        assert Target(after["input"][0]).model == Target(before["input"][0]).model


def test_rows_of_version_0_1_get_the_names_that_0_2_gives_the_same_tasks():
    pairs = list(load_from_file(LOGS / "tophub_arm_cpu_v0.02.log"))
    assert len(pairs) == 338
    names = {(inp.task.name, result.extra["template_key"]) for inp, result in pairs}
    assert names == {
        ("conv2d_nchw_spatial_pack.arm_cpu", "direct"),
        ("conv2d_nchw_winograd.arm_cpu", "winograd"),
        ("depthwise_conv2d_nchw.arm_cpu", "direct"),
    }
    inp, result = pairs[0]
    assert inp.task.args == (
        ("TENSOR", (1, 3, 224, 224), "float32"),
        ("TENSOR", (64, 3, 7, 7), "float32"),
        (2, 2),
        (3, 3, 3, 3),
        (1, 1),
        "float32",
    )
    assert inp.target.attrs["mtriple"] == "armv7a-linux-eabi"
    assert (inp.config.index, inp.config["tile_co"].size) == (11980, [8, 8])
    assert result.costs == (0.105873629,)


OLD_CONV = json.dumps(
    {
        "i": [
            "cuda -model=titanx", "topi_nn_conv2d",
            [["TENSOR", [1, 2048, 8, 8], "float32"], ["TENSOR", [192, 2048, 1, 1], "float32"],
             [1, 1], [0, 0], [1, 1], "NCHW", "float32"],
            {}, ["conv2d"],
            {"i": 8797896, "c": None, "t": "direct", "e": [["tile_f", "sp", [6, 1, 32, 1]]]},
        ],
        "r": [[5.69732536806342e-05], 0, 14.116215467453003, 1535423916.7184713],
        "v": 0.1,
    }
)  # fmt: skip


def test_a_cuda_row_of_version_0_1_equals_its_published_translation():
    old, new = decode(OLD_CONV), next(iter(load_from_file(LOGS / "tophub_cuda_v0.10.log")))
    assert old[0].task == new[0].task
    assert old[0].target == new[0].target
    assert old[1].costs == new[1].costs


def test_a_user_template_of_version_0_1_keeps_its_name_and_arguments():
    text = OLD_CONV.replace("topi_nn_conv2d", "my_conv").replace('"t": "direct", ', '"t": null, ')
    inp, result = decode(text)
    assert inp.task.name == "my_conv"
    assert inp.task.args[3:] == ((0, 0), (1, 1), "NCHW", "float32")
    assert result.extra == {}


def test_keys_of_trials_tell_configurations_apart_where_asked():
    one, other = make_input(), make_input(config={**CONV_CONFIG, "index": 1})
    assert measure_str_key(one) != measure_str_key(other)
    assert measure_str_key(one, False) == measure_str_key(other, False)


names = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2),
    max_leaves=5,
)
entities = (
    st.tuples(st.just("sp"), st.lists(st.integers(-1, 4096), max_size=5))
    | st.tuples(st.just("re"), st.permutations(range(4)))
    | st.tuples(st.just("an"), st.lists(st.sampled_from(["none", "vec", "unroll"]), max_size=4))
    | st.tuples(st.just("ot"), values)
)
arguments = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**70),
    st.dictionaries(names, entities, max_size=4),
    st.lists(arguments, max_size=4),
    st.lists(st.floats(1e-9, 10), min_size=1, max_size=3),
    st.text(max_size=20),
)
def test_any_trial_survives_writing_and_reading(index, knobs, args, costs, message):
    target = Target("llvm")
    config = {"index": index, "code_hash": "1f", "entity": [[n, *e] for n, e in knobs.items()]}
    inp = MeasureInput(target, Task("t", args, target), ConfigEntity.from_json_dict(config))
    result = MeasureResult(tuple(costs), 0, 1.0, 2.0, message)
    text = encode(inp, result)
    assert "\n" not in text
    back, back_result = decode(text)
    assert (back.task, back.config, back.target) == (inp.task, inp.config, target)
    assert back_result == result


def test_what_records_have_in_common_is_kept_once():
    extra = {"clocks": {"sm_mhz": 1980}, "resources": {"registers": 7}, "device_class": "H sm_90"}
    text = encode(make_input(), good(1.0)._replace(extra=extra))
    one, other = (decode(text)[1].evidence for _ in range(2))
    pairs = [(one.__dict__, other.__dict__), (one.clocks, other.clocks)]
    for first, second in (*pairs, (one.resources, other.resources)):
        assert all(key is again for key, again in zip(first, second, strict=True))
    assert one.device_class is other.device_class
