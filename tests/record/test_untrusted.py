"""What a log says is looked up in what the template offers; it never reaches a kernel itself."""

import json
import logging

import numpy as np
import pytest

import autotune
from autotune.errors import KernelError, RecordError, SpaceError
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.record import decode, encode
from autotune.task import (
    TASK_TABLE,
    ApplyConfig,
    DispatchContext,
    FallbackConfigEntity,
    create,
    get_config,
    register_topi_compute,
    register_topi_schedule,
    template,
)
from autotune.tuner.loop.resume import Earlier, earlier

CODE = """
void scale(const float *x, float *y) { for (int i = 0; i < 4; ++i) y[i] = x[i] * FACTOR; }
"""
PAIRS = [(1, 2), (3, 4)]
SIZES = [np.int64(8), np.int64(16)]


@pytest.fixture
def scale(monkeypatch):
    """A template whose knobs go straight into the text of its kernel; keeps what it was given."""
    monkeypatch.setattr(DispatchContext, "warning_messages", set())
    given = []

    @template("tests.record.untrusted")
    def scale():
        cfg = get_config()
        cfg.define_knob("factor", [1, 2, 4])
        cfg.define_knob("pair", PAIRS)
        cfg.define_knob("size", SIZES)
        cfg.define_reorder("order", [4, 2], "all")
        cfg.define_split("tile", 4, num_outputs=2)
        cfg.multi_filter(lambda c: c["factor"].val != 4 or c["tile"].size[1] != 4)
        given.append({name: cfg[name] for name in cfg})
        return autotune.SourceKernel(
            "scale",
            CODE,
            [autotune.arg("x", (4,)), autotune.arg("y", (4,), role="out")],
            defines={"FACTOR": cfg["factor"].val},
        )

    scale.given = given
    yield scale
    del TASK_TABLE["tests.record.untrusted"]


@pytest.fixture
def task(scale):
    return create(scale, (), "c")


def line(task, at=13, index=None, **choices):
    """Return the row of a very fast trial, some of whose choices were written over."""
    inp = MeasureInput(task.target, task, task.config_space.get(at))
    row = json.loads(encode(inp, MeasureResult((1e-6,), 0, 0.1, 1.0)))
    for one in row["config"]["entity"]:
        one[2] = choices.get(one[0], one[2])
    row["config"]["index"] = at if index is None else index
    return row


def test_code_in_a_record_is_neither_built_nor_run(task, scale, tmp_path, caplog):
    sign = tmp_path / "executed"
    code = (
        f"1\n__attribute__((constructor)) void f() {{ system(\"touch '{sign}'\"); }}\n#define X 1"
    )
    log = tmp_path / "x.log"
    log.write_text(json.dumps(line(task, factor=code)) + "\n")
    with caplog.at_level(logging.WARNING, "autotvm"):
        with autotune.apply_history_best(log), autotune.Target("c"):
            built = autotune.build(scale())
        x, y = np.ones(4, "float32"), np.zeros(4, "float32")
        built(x, y)
    assert list(y) == [1, 1, 1, 1]
    assert not sign.exists()
    assert "Cannot find config for target=c" in caplog.text
    assert f"{log}: of 'tests.record.untrusted', 1 record is not in its space" in caplog.text


HOSTILE = [
    {"factor": 999},
    {"factor": "2"},
    {"factor": 2.0},
    {"factor": True},
    {"factor": [2]},
    {"factor": {"2": 2}},
    {"factor": None},
    {"factor": float("nan")},
    {"pair": [1, 2, 3]},
    {"pair": "(1, 2)"},
    {"size": 9},
    {"order": [0, 0]},
    {"order": [0]},
    {"order": [0, 1, 2]},
    {"tile": [-1, 3]},
    {"tile": [-1, -1]},
    {"tile": [7, 2]},
    {"tile": [-1, 10**30]},
    {"tile": [-1, 0]},
    {"tile": [-1]},
    {"factor": 4, "tile": [-1, 4]},
    {"index": 10**30},
    {"index": 10**5},
]


@pytest.mark.parametrize("change", HOSTILE, ids=str)
def test_what_a_template_does_not_offer_is_refused_wherever_a_record_is_used(task, scale, change):
    row = line(task, **change)
    inp, result = decode(json.dumps(row))
    with pytest.raises(SpaceError, match="tune again"):
        task.instantiate(inp.config)
    with ApplyConfig(inp.config), pytest.raises(SpaceError, match="tune again"):
        scale()
    with autotune.apply_history_best([(inp, result)]), autotune.Target("c"):
        assert scale().defines == {"FACTOR": 1}
    assert earlier(task, [(inp, result)], retry=False) == Earlier([], None)


@pytest.mark.parametrize("change", [{"index": -1}, {"tile": [-1, 2.0]}, {"order": [True, False]}])
def test_what_no_space_can_hold_is_no_record(task, change):
    with pytest.raises(RecordError, match=r"whole number|no value of type"):
        decode(json.dumps(line(task, **change)))


def test_a_template_is_handed_its_own_values_back(task, scale):
    index = task.config_space.knob2point([1, 1, 1, 1, 1])
    config, _ = decode(json.dumps(line(task, index)))
    assert config.config["pair"].val == [3, 4]
    for call in (lambda: task.instantiate(config.config), lambda: _applied(scale, config.config)):
        scale.given.clear()
        call()
        seen = scale.given[-1]
        assert seen["pair"].val is PAIRS[1]
        assert seen["size"].val is SIZES[1]
        assert (seen["factor"].val, seen["order"].perm, seen["tile"].size) == (2, (1, 0), [-1, 2])


def _applied(scale, config):
    with ApplyConfig(config):
        return scale()


def test_the_choices_decide_in_resume_as_in_replay_where_an_index_is_of_another_point(task):
    moved = decode(json.dumps({**line(task, 13, index=2), "race": {"candidates": [{"index": 0}]}}))
    (known, result), *more = earlier(task, [moved, decode(json.dumps(line(task, 0)))]).trials
    assert known.config.index == 13
    assert "race" not in result.extra  # which names other points by their indices of then
    assert [inp.config.index for inp, _ in more] == [0]


def test_tuples_and_numpy_values_survive_being_resumed(task):
    index = task.config_space.knob2point([0, 1, 1, 0, 0])
    inp, result = decode(json.dumps(line(task, index)))
    (known, _), best = earlier(task, [(inp, result)], retry=False).trials[0], inp.config
    assert best["pair"].val == [3, 4]
    assert known.config["pair"].val is PAIRS[1]
    assert known.config.space is task.config_space


def test_a_record_that_fits_is_used_though_a_faster_one_does_not(task, scale, caplog):
    fits, faster = line(task), line(task, factor=999)
    faster["result"][0] = [1e-9]
    records = [decode(json.dumps(row)) for row in (faster, fits, faster)]
    with autotune.apply_history_best(records), autotune.Target("c"):
        assert scale().defines == {"FACTOR": 2}
    assert "2 records are not in its space as it is now" in caplog.text


def test_the_halves_of_a_task_are_handed_values_of_their_own():
    seen = []

    @register_topi_compute("tests.record.halves")
    def double(cfg, a):
        cfg.define_knob("k", [1, 2])
        seen.append(cfg["k"].val)
        return autotune.te.compute(a.shape, lambda i: a[i] * 2.0, name="double")

    @register_topi_schedule("tests.record.halves")
    def schedule(cfg, outs):
        seen.append(cfg["k"].val)
        return autotune.te.create_schedule([t.op for t in outs])

    try:
        a = autotune.te.placeholder((16,), name="A")
        task = create("tests.record.halves", (a,), "c")
        good, bad = (
            decode(json.dumps(line(task, 1, **choices))) for choices in ({}, {"k": "evil"})
        )
        for record, value in ((good, 2), (bad, 1)):
            with autotune.apply_history_best([record]), autotune.Target("c"):
                seen.clear()
                schedule([double(a)])
                assert set(seen[-1:]) == {value}
                assert "evil" not in seen
        with ApplyConfig(bad[0].config), pytest.raises(SpaceError, match="'k' = evil does not"):
            double(a)
    finally:
        del TASK_TABLE["tests.record.halves"]


def test_a_function_without_a_template_gets_only_what_it_offers(task):
    inp, _ = decode(json.dumps(line(task, factor="evil")))
    with ApplyConfig(inp.config), pytest.raises(SpaceError, match="'factor' = evil does not fit"):
        get_config().define_knob("factor", [1, 2])


def test_a_fallback_imitates_no_record_with_values_of_its_own(task):
    evil, odd, huge, good = (
        decode(json.dumps(line(task, **choices)))
        for choices in ({"factor": "evil"}, {"tile": [-1, 0]}, {"tile": [-1, 10**40]}, {})
    )
    config = FallbackConfigEntity()
    config.define_knob("factor", [1, 2, 4])
    config.define_split("tile", 4, num_outputs=2)
    config.fallback_with_reference_log([evil, odd, huge])
    assert (config["factor"].val, config["tile"].size) in [(1, [-1, 1]), (2, [1, 4])]
    config.fallback_with_reference_log([evil, good])
    assert config["factor"].val == 2


@pytest.mark.parametrize("value", ["1\n#define B", "1\r2", "1 \\", "1\u2028 2", "1\n", "1??/"])
def test_a_define_is_one_line(value):
    with pytest.raises(KernelError, match="'A' must be one line of text"):
        autotune.SourceKernel("k", "\n", [autotune.arg("x", (1,))], {"A": value}).text()
