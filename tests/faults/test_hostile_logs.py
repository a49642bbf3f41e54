"""Five hundred hostile lines through everything that reads a log: no crash, no false row, no code.

Lines are made from a true one by a seeded draw: values of every kind in every place, text cut and
spliced, rows of version 0.1 and of the pickle protocol, winners of races.
"""

import base64
import copy
import json
import pickle
import random
import sqlite3

import pytest
from click.testing import CliRunner

import autotune
from autotune.cli.main import main
from autotune.errors import AutotuneError
from autotune.measure.types import LEAST_S, MeasureInput, MeasureResult
from autotune.record import (
    RACE_NOTE,
    ApplyHistoryBest,
    LogReader,
    SqliteDatabase,
    compact,
    decode,
    encode,
    load_from_file,
    pick_best,
    split_workload,
)
from autotune.task import TASK_TABLE, ConfigEntity, DispatchContext, create, get_config, template
from autotune.tuner import AutoTuner
from autotune.tuner.loop.resume import earlier
from autotune.tuner.replay import Recording
from autotune.tvm.autotvm.record import main as record_main
from autotune.utils.escaping import visible

NAME = "tests.faults.hostile"
LINES = 500
CODE = "void f(const float *x, float *y) { y[0] = FACTOR * x[0] + 0 * WIDE; }\n"


@pytest.fixture
def hostile(monkeypatch):
    monkeypatch.setattr(DispatchContext, "warning_messages", set())

    @template(NAME)
    def scale(n):
        cfg = get_config()
        cfg.define_knob("factor", [2, 4])
        cfg.define_knob("wide", [(1, 2), (3, 4)])
        cfg.define_split("tile", 16, num_outputs=2)
        cfg.define_reorder("order", [4, 2], "all")
        return autotune.SourceKernel(
            "f",
            CODE,
            [autotune.arg("x", (1,)), autotune.arg("y", (1,), role="out")],
            defines={"FACTOR": cfg["factor"].val, "WIDE": cfg["wide"].val[0]},
        )

    yield scale
    del TASK_TABLE[NAME]


def pool(payload):
    return [
        None, True, False, -1, 0, 999, 10**30, 10**400, 3.0, -0.5, 1e-320, 5e-324, float("inf"),
        float("-inf"), float("nan"), "", "x", payload, "\ud800", "\x1b[2J", "a" * 10_000, [], {},
        [0, 0], [[]], [None], {"a": [1]}, {"index": 0}, ["sp"], ["k", "ot", payload], [1e9, "x"],
        [payload], {"factor": payload}, "sp", "re", "an", "ot", "cuda", "c -keys=cpu", [10**400],
        range(3).__len__(), json.loads("[" * 90 + "]" * 90),
    ]  # fmt: skip


def places(value, path=()):
    """Return the paths of all values within JSON data."""
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, one in inner:
        yield from places(one, (*path, key))


def put(data, path, value):
    if not path:
        return value
    data = copy.deepcopy(data)
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return data


def pickled(draw, payload):
    values = [
        range(10**10), payload, [10**5000], {"a": object()}, (0.5,), ["t", (1,), {}], print,
        pickle, float("inf"), [[[]]], 10**400,
    ]  # fmt: skip
    fields = []
    for _ in range(draw.choice([3, 5])):
        value = draw.choice(values)
        try:
            data = pickle.dumps(value, draw.choice([2, 4]))
        except (TypeError, pickle.PicklingError, AttributeError):
            data = b"cos\nsystem\n(S'" + payload.encode(errors="ignore")[:50] + b"'\ntR."
        fields.append(base64.b64encode(data).decode())
    bomb = b"(l" + b"".join(b"p%d\n(g%d\ng%d\nl" % (i, i, i) for i in range(60)) + b"."
    huge = b"\x80\x02]r\xff\xff\xff\x7f."
    fields[draw.randrange(3)] = base64.b64encode(draw.choice([bomb, huge, b"garbage."])).decode()
    return "\t".join(["llvm", *fields])


def old(row):
    """Return a row as version 0.1 wrote it."""
    config = row["config"]
    inner = {"i": config["index"], "c": None, "e": config["entity"], "t": "direct"}
    target, name, args, kwargs = row["input"]
    return {"i": [target, name, args, kwargs, [name, *args], inner], "r": row["result"], "v": 0.1}


def hostile_lines(true, payload, seed=0):
    draw, values = random.Random(seed), pool(payload)
    raced = {**true, "race": {"candidates": [{"index": 0, "seconds": 1.0}], "passed_over": [1]}}
    lines = []
    for i in range(LINES):
        kind = i % 10
        if kind < 6:
            row = draw.choice([true, raced, old(true)])
            for _ in range(draw.choice([1, 1, 2, 3])):
                row = put(row, draw.choice(list(places(row))), draw.choice(values))
            lines.append(draw.choice(["", "", RACE_NOTE]) + json.dumps(row))
        elif kind == 6:
            lines.append(pickled(draw, payload))
        elif kind == 7:
            text = json.dumps(draw.choice([true, raced]))
            cut, end = sorted(draw.randrange(len(text)) for _ in range(2))
            lines.append(
                text[:cut] + draw.choice(["", "[" * 10**5, "9" * 5000, "\x00"]) + text[end:]
            )
        elif kind == 8:
            lines.append(
                draw.choice(["[" * 10**5, '{"a":' * 10**4, "9" * 5000, "\tx\t", "# race ["])
            )
        else:
            choices = {"factor": payload, "wide": [3, 5], "tile": [-1, 3], "order": [0, 0]}
            row = copy.deepcopy(true)
            one = draw.choice(row["config"]["entity"])
            one[2], row["result"][0] = choices[one[0]], [1e-11]
            lines.append(json.dumps(row))
    return [line.replace("\n", " ") for line in lines]


@pytest.fixture
def campaign(hostile, tmp_path):
    """The lines in a log, one true row among them, and the file that code in them would make."""
    sign = tmp_path / "executed"
    payload = f"1\n__attribute__((constructor)) void g() {{ system(\"touch '{sign}'\"); }}"
    task = create(hostile, (1,), "c")
    inp = MeasureInput(task.target, task, task.config_space.get(5))
    true = json.loads(encode(inp, MeasureResult((1e-6,), 0, 0.1, 1.0)))
    lines = hostile_lines(true, payload)
    log = tmp_path / "x.log"
    text = "\n".join([*lines[:250], json.dumps(true), *lines[250:]]) + "\n"
    log.write_text(text, "utf-8", "replace")
    yield task, lines, log
    assert not sign.exists()


def test_no_line_is_an_exception_or_a_time_that_is_none(campaign):
    _, lines, _ = campaign
    read = longest = 0
    for line in lines:
        for protocol in ("json", "pickle"):
            for text in (line, line.removeprefix(RACE_NOTE)):
                try:
                    pair = decode(text, protocol)
                except AutotuneError as error:
                    longest = max(longest, len(str(error)))
                    continue
                if pair is not None:
                    read += 1
                    assert all(cost >= LEAST_S for cost in pair[1].costs)
                    encode(*pair).encode()
    assert longest < 1000
    assert read > 50  # most hostile values stand where they do no harm


def test_a_whole_log_of_them_is_read_and_its_true_row_found(campaign):
    task, _, log = campaign
    with log.open(encoding="utf-8") as file:
        reader = LogReader(file, "x.log", quiet=True, races=True)
        assert len(list(reader)) + len(reader.problems) > LINES / 2
    known = earlier(task, log)
    assert 5 in {inp.config.index for inp, _ in known.trials}
    for inp, _ in known.trials:
        point = task.config_space.get(inp.config.index)
        assert inp.config.space is task.config_space
        assert inp.config.to_json_dict()["entity"] == point.to_json_dict()["entity"]
    AutoTuner(task, seed=0).load_history(list(load_from_file(log)))


def test_history_builds_nothing_that_the_template_does_not_offer(campaign, hostile):
    _, _, log = campaign
    with ApplyHistoryBest(log), autotune.Target("c"):
        kernel = hostile(1)
        assert kernel.defines["FACTOR"] in (2, 4)
        assert kernel.defines["WIDE"] in (1, 3)
        autotune.build(kernel)


def test_commands_on_logs_end_in_words(campaign, tmp_path, capsys):
    _, _, log = campaign
    best = tmp_path / "best.log"
    commands = (
        ["log", "show", log], ["log", "pick", log, best], ["log", "split", log],
        ["log", "compact", log, "--out", tmp_path / "small.log"], ["log", "show", best],
        ["log", "best", log], ["verify", log],
    )  # fmt: skip
    for command in commands:
        result = CliRunner().invoke(main, [str(word) for word in command])
        assert isinstance(result.exception, (type(None), SystemExit, AutotuneError)), command
        assert visible(result.output, lines=True) == result.output, command
    record_main(["--i", str(log), "--end", "1000", "--ir", "--code"])
    said = capsys.readouterr().out
    assert CODE in said
    assert "not shown: configuration" in said
    pick_best(log, best)
    split_workload(log)
    compact(log)
    with log.open() as file:
        reader = LogReader(file, "x.log", quiet=True)
        assert len(list(reader)) > 10
    assert not reader.problems


def test_recordings_and_databases_of_them_say_what_is_wrong(campaign, tmp_path):
    _, lines, log = campaign
    for pair in load_from_file(log):
        try:
            Recording.from_records([pair]).task().config_space.get(0)
        except AutotuneError:
            continue
    path = tmp_path / "trials.db"
    db = SqliteDatabase(path)
    pairs = list(load_from_file(log))
    for inp, result in pairs:
        db.save(inp, result)
        db.load(inp)
    with sqlite3.connect(path) as connection:
        rows = [
            (f"k{i}", line.encode("utf-8", "replace").decode()) for i, line in enumerate(lines)
        ]
        connection.executemany("INSERT INTO trials (digest, row) VALUES (?, ?)", rows)
    connection.close()
    assert len(db.filter(lambda inp, results: True)) > 20
    db.close()


def test_no_template_is_run_with_a_text_that_could_be_code(capsys, tmp_path):
    given = []

    @template("tests.faults.listening")
    def listening(text):
        given.append(text)
        get_config().define_knob("k", list(range(10)))

    try:
        evil = "1; system(0)"
        names = [autotune.task.Task(listening.task_name, (text,), "c") for text in (evil, "NCHW")]
        config = ConfigEntity.from_json_dict(
            {"index": 3, "code_hash": None, "entity": [["k", "ot", 3]]}
        )
        pairs = [
            (MeasureInput(one.target, one, config), MeasureResult((1e-6,), 0, 0.1, 1.0))
            for one in names
        ]
        log = tmp_path / "evil.log"
        log.write_text("".join(encode(*pair) + "\n" for pair in pairs))
        record_main(["--i", str(log), "--ir", "--code"])
        said = CliRunner().invoke(main, ["log", "best", str(log)]).output
        CliRunner().invoke(main, ["verify", str(log)])
        AutoTuner(create(listening, ("NHWC",), "c"), seed=0).load_history(pairs, 1)
        for text in (said, capsys.readouterr().out):
            assert "a text that could be code" in text
        assert set(given) == {"NCHW", "NHWC"}
    finally:
        del TASK_TABLE["tests.faults.listening"]
