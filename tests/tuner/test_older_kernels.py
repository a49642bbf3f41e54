"""A record is good for the kernel it was measured of: an edited one is measured anew."""

import json
import logging
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import autotune
from autotune import te
from autotune.cli.main import main
from autotune.driver import kernel_hash, kernel_hashes
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.record import compact, encode, load_from_file
from autotune.task import (
    TASK_TABLE,
    ConfigEntity,
    DispatchContext,
    Task,
    create,
    get_config,
    template,
)
from autotune.tuner import GridSearchTuner, callback
from autotune.tuner.loop.resume import earlier

ROOT = Path(__file__).parent.parent.parent
NAME = "tests.tuner.older"
# What the template below is made of; the tests edit it.
GOOD = {
    "text": "void f(const float *x, float *y) { for (int i = 0; i < N; ++i) y[i] = 2 * x[i]; }\n",
    "flags": (),
    "reference": lambda x: 2 * x,
    "n": 4,
    "launch": 1,
}
now = dict(GOOD)
EDIT = "int edited;\n"


@pytest.fixture(autouse=True)
def scale(monkeypatch):
    monkeypatch.setattr(DispatchContext, "warning_messages", set())
    now.clear()
    now.update(GOOD)

    @template(NAME)
    def scale():
        cfg = get_config()
        cfg.define_knob("unroll", [1, 2, 4])
        if now["n"] is None:
            raise KeyError("n")
        if now.get("refuse"):
            cfg.raise_error("too many threads")
        return autotune.SourceKernel(
            "f",
            now["text"],
            [autotune.arg("x", (now["n"],)), autotune.arg("y", (now["n"],), role="out")],
            defines={"N": now["n"], "UNROLL": cfg["unroll"].val},
            flags=now["flags"],
            grid=now["launch"],
            reference=now["reference"],
        )

    yield scale
    del TASK_TABLE[NAME]


def tuned(log, **kwargs):
    """Tune all three points; return the tuner."""
    tuner = GridSearchTuner(create(NAME, (), "c"))
    option = measure_option(LocalBuilder(20, n_parallel=1), LocalRunner(20, number=1, repeat=1))
    callbacks = [callback.log_to_file(log)]
    tuner.tune(3, option, callbacks=callbacks, resume=log, finalists=0, **kwargs)
    return tuner


def test_an_edited_kernel_is_measured_again_and_its_old_winner_forgotten(tmp_path, caplog):
    log = tmp_path / "x.log"
    assert tuned(log).resumed == 0
    assert tuned(log).resumed == 3
    now["text"] = GOOD["text"].replace("2 * x[i]", "x[i] + x[i]")
    caplog.clear()
    tuner = tuned(log)
    assert tuner.resumed == 0
    assert f"resume: of {NAME}, 3 records are of an older kernel text, ignored" in caplog.text
    hashes = [json.loads(line)["kernel_hash"] for line in log.read_text().splitlines()]
    assert len(hashes) == len(set(hashes)) == 6
    assert tuned(log).resumed == 3


def test_a_kernel_that_became_wrong_keeps_no_good_record(tmp_path):
    log = tmp_path / "x.log"
    tuned(log)
    now["text"] = GOOD["text"].replace("2 * x[i]", "3 * x[i]")
    tuner = tuned(log)
    assert tuner.best_config is None
    assert {result.error_no for _, result in list(load_from_file(log))[3:]} == {5}


def test_what_was_refused_counts_as_long_as_it_is_refused():
    task = create(NAME, (), "c")
    inp = MeasureInput(task.target, task, task.config_space.get(1))
    refused = [(inp, MeasureResult((), 1, 0.1, 1.0, "too many threads"))]
    assert earlier(task, refused).trials == []
    assert len(earlier(task, refused, keep_older=True).trials) == 1
    now["refuse"] = True
    assert len(earlier(task, refused).trials) == 1


def test_a_template_that_raised_is_tried_again_once_it_does_not():
    task = create(NAME, (), "c")
    inp = MeasureInput(task.target, task, task.config_space.get(1))
    raised = [(inp, MeasureResult((), MeasureErrorNo.COMPILE_HOST, 0.1, 1.0, "KeyError: 'n'"))]
    assert earlier(task, raised).trials == []
    now["n"] = None  # the text of the template raises again
    assert len(earlier(task, raised).trials) == 1


def test_a_failure_that_says_nothing_of_itself_is_taken_as_it_is():
    task = create(NAME, (), "c")
    inp = MeasureInput(task.target, task, task.config_space.get(1))
    foreign = [(inp, MeasureResult((), MeasureErrorNo.COMPILE_HOST, 0.1, 1.0))]
    assert len(earlier(task, foreign).trials) == 1


def test_an_option_keeps_them(tmp_path):
    log = tmp_path / "x.log"
    tuned(log)
    now["text"] += EDIT
    task = create(NAME, (), "c")
    assert len(earlier(task, log).trials) == 0
    assert len(earlier(task, log, keep_older=True).trials) == 3
    assert tuned(log, keep_older=True).resumed == 3


CHANGES = [
    {"text": GOOD["text"] + EDIT},
    {"flags": ("-ffast-math",)},
    {"reference": lambda x: x + x},
    {"reference": partial(np.multiply, 2)},
    {"reference": None},
    {"n": 8},
    {"launch": 2},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_whatever_decides_a_trial_counts(change):
    task = create(NAME, (), "c")
    before = kernel_hash(task.instantiate(task.config_space.get(1)), task.target)
    now.update(change)
    after = kernel_hash(task.instantiate(task.config_space.get(1)), task.target)
    assert before != after


def test_what_decides_nothing_does_not_count():
    task = create(NAME, (), "c")
    first = task.instantiate(task.config_space.get(1))
    now["reference"] = lambda x:  2*x  # fmt: skip
    assert kernel_hash(first, task.target) == kernel_hash(
        task.instantiate(task.config_space.get(1)), task.target
    )


def test_comments_and_layout_do_not_count(tmp_path):
    log = tmp_path / "x.log"
    tuned(log)
    now["text"] = "/* twice */\n\n" + GOOD["text"].replace("{", "{  // each\n")
    assert tuned(log).resumed == 3


def test_comments_of_headers_do_not_count_but_where_a_file_is_embedded(tmp_path):
    now["text"] = '#include "one.h"\n' + GOOD["text"]
    now["flags"] = (f"-I{tmp_path}",)
    task = create(NAME, (), "c")

    def hashes():
        for text in ("int x;", "int x;  // c", "int y;"):
            (tmp_path / "one.h").write_text(text)
            yield kernel_hash(task.instantiate(task.config_space.get(0)), task.target)

    first, commented, other = hashes()
    assert first == commented != other
    now["text"] = "#if __has_embed(<a>)\n#endif\n" + now["text"]
    assert len({*hashes()}) == 3


def test_a_log_whose_hashes_count_comments_stays_good_while_the_text_is_the_same(tmp_path):
    log = tmp_path / "x.log"
    now["text"] = "// twice\n" + GOOD["text"]
    now["flags"] = ("-include", str(tmp_path / "one.h"))
    (tmp_path / "one.h").write_text("// none\n")
    tuned(log)
    task = create(NAME, (), "c")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        config = task.config_space.get(row["config"]["index"])
        made, former = kernel_hashes(task.instantiate(config), task.target)
        assert row["kernel_hash"] == made != former
        row["kernel_hash"] = former
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(earlier(create(NAME, (), "c"), log).trials) == 3
    (tmp_path / "one.h").write_text("// nothing\n")
    assert len(earlier(create(NAME, (), "c"), log).trials) == 0


def test_headers_count_by_what_they_hold_not_by_where_they_are(tmp_path):
    now["text"] = '#include "one.h"\n' + GOOD["text"]
    task = create(NAME, (), "c")
    hashes = []
    for folder, text in (("a", "int x;"), ("b", "int x;"), ("c", "int y;")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.h").write_text(text)
        now["flags"] = (f"-I{tmp_path / folder}", "-O2")
        hashes.append(kernel_hash(task.instantiate(task.config_space.get(0)), task.target))
    assert hashes[0] == hashes[1] != hashes[2]


def test_history_passes_over_older_records_and_says_so(scale, tmp_path, caplog):
    log = tmp_path / "x.log"
    tuned(log)
    with autotune.apply_history_best(log) as history, autotune.Target("c"):
        best = history.best_by_targetkey["cpu", (NAME,)][0].config["unroll"].val
        assert scale().defines["UNROLL"] == best
    now["text"] += EDIT
    caplog.set_level(logging.WARNING, "autotvm")
    with autotune.apply_history_best(log), autotune.Target("c"):
        assert scale().defines["UNROLL"] == 1
    assert "Cannot find config for target=c" in caplog.text
    assert f"{log}: of {NAME!r}, 3 records are of an older kernel text, ignored" in caplog.text
    with autotune.apply_history_best(log, keep_older=True), autotune.Target("c"):
        assert scale().defines["UNROLL"] == best


def test_one_record_of_today_is_used_among_older_ones(scale, tmp_path, caplog):
    log = tmp_path / "x.log"
    tuned(log)
    old = log.read_text().splitlines()
    now["text"] += EDIT
    tuned(log)
    new = log.read_text().splitlines()[-1]
    faster = [json.dumps({**json.loads(line), "result": [[1e-9], 0, 1, 1]}) for line in old]
    log.write_text("\n".join([*faster, new]) + "\n")
    with autotune.apply_history_best(log), autotune.Target("c"):
        assert scale().defines["UNROLL"] == 4
    assert "3 records are of an older kernel text" in caplog.text


def test_verify_counts_older_records_and_goes_on(tmp_path, caplog):
    log = tmp_path / "x.log"
    tuned(log)
    now["text"] += EDIT
    result = CliRunner().invoke(main, ["verify", str(log)])
    assert "3 records are of an older kernel text" in caplog.text
    assert "no record of a trial that worked, of kernels as they are now" in result.output
    result = CliRunner().invoke(main, ["verify", str(log), "--keep-older", "--every"])
    assert "of 3 records hold" in result.output


@pytest.mark.parametrize("text", ["x(); ", "{", "1 /* 2", "a\nb", '"', "x\\", "#", "// "])
def test_verify_gives_no_template_a_text_that_could_be_code(tmp_path, caplog, text):
    inp = MeasureInput(autotune.Target("c"), Task("softmax.cpu", (4, text), "c"), make_config())
    (tmp_path / "x.log").write_text(encode(inp, MeasureResult((1.0,), 0, 1.0, 1.0)) + "\n")
    for options in ([], ["--keep-older"]):
        result = CliRunner().invoke(main, ["verify", str(tmp_path / "x.log"), *options])
        assert "has no record of a trial that worked" in result.output
        assert "is a text that could be code" in caplog.text
        caplog.clear()


def make_config():
    return ConfigEntity(0, None, {})


def test_a_log_of_autotvm_has_no_hash_and_is_taken_as_it_is(tmp_path):
    log = tmp_path / "x.log"
    tuned(log)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        del row["kernel_hash"]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    now["text"] += EDIT
    assert len(earlier(create(NAME, (), "c"), log).trials) == 3
    compact(log)
    assert len(list(load_from_file(log))) == 3


def schedule_of(factor, scale=2.0, order=("a", "b")):
    tensors = {name: te.placeholder((64,), name=name) for name in "ab"}
    out = te.compute((64,), lambda i: tensors["a"][i] * scale + tensors["b"][i], name="out")
    schedule = te.create_schedule(out.op)
    schedule[out].split(out.op.axis[0], factor)
    return schedule, [*(tensors[name] for name in order), out]


def test_schedules_are_known_by_what_they_compute_and_by_their_steps():
    target = autotune.Target("c")
    same = {kernel_hash(schedule_of(8), target) for _ in range(2)}
    assert len(same) == 1
    others = [schedule_of(16), schedule_of(8, 3.0), schedule_of(8, order=("b", "a"))]
    assert len(same | {kernel_hash(other, target) for other in others}) == 4


PRINT = """
import os, sys
os.chdir(sys.argv[1])
import autotune, autotune.templates
from autotune.driver import kernel_hash
from autotune.task import create
for name, args, target in (
    ("gemm_nn.cpu", (64, 64, 64), "c"), ("te/gemm.cuda", (64, 64, 64), "cuda -arch=sm_80"),
    ("softmax.cuda", (64, 64), "cuda -arch=sm_80"),
):
    task = create(name, args, target)
    config = task.config_space.get(task.config_space.get_next_index(-1))
    print(kernel_hash(task.instantiate(config), task.target))
"""


def test_a_hash_is_the_same_in_every_process(tmp_path):
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PRINT, str(folder)], cwd=ROOT, check=True, text=True,
            stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": seed,
                                         "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        ).stdout
        for folder, seed in ((tmp_path, "1"), (ROOT, "2"))
    }  # fmt: skip
    (text,) = outputs
    assert len(set(text.split())) == 3
