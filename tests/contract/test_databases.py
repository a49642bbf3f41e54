"""What every database of trials does."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import sqlalchemy
from click.testing import CliRunner

import autotune
from autotune.cli.main import main
from autotune.record import (
    DummyDatabase,
    LogDatabase,
    apply_history_best,
    encode,
    filter_inputs,
    is_race,
    measure_str_key,
    open_database,
)
from tests.contract import postgresql
from tests.forked import Script, forkserver_with
from tests.record.records import failed, good, make_config, make_input

KINDS = ["memory", "log", "folder", "sqlite", "postgresql"]
SHARED = KINDS[1:]


@pytest.fixture(scope="module")
def forkserver():
    with forkserver_with(["autotune.record", "tests.record.records", "sqlalchemy"]):
        yield


@pytest.fixture(scope="module")
def postgres():
    reason = postgresql.why_not()
    if reason:
        pytest.skip(reason)
    with postgresql.server() as url:
        yield url


@pytest.fixture
def where(request, tmp_path):
    return place_of(request, tmp_path)


def place_of(request, tmp_path):
    """Returns the path or URL of an empty database that other processes can open."""
    match request.param:
        case "log":
            return str(tmp_path / "trials.log")
        case "folder":
            return f"{tmp_path / 'trials'}/"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'trials.db'}"
    url = request.getfixturevalue("postgres")
    with open_database(url) as database:
        database.flush()
    return url


@pytest.fixture(params=KINDS)
def db(request, tmp_path):
    if request.param == "memory":
        yield DummyDatabase()
        return
    with open_database(place_of(request, tmp_path)) as database:
        yield database


def trial(index):
    return make_input(config=make_config(index, k=index))


def raced(winner, *beaten):
    keys = [{"index": one.config.index} for one in (winner, *beaten)]
    return winner, good(1.5, timestamp=9e9, race={"candidates": keys})


def test_what_was_not_saved_is_not_found(db):
    assert db.load(trial(0)) is None
    assert db.load(trial(0), get_all=True) is None


def test_a_result_replaces_the_one_before_unless_it_extends_it(db):
    first, second = good(1.0, timestamp=1.0), good(2.0, timestamp=2.0)
    db.save(trial(0), first)
    db.save(trial(0), second)
    assert db.load(trial(0), get_all=True) == [second]
    db.save(trial(0), first, extend=True)
    db.save(trial(0), first, extend=True)
    assert db.load(trial(0), get_all=True) == [second, first]


def test_the_latest_result_is_loaded_whatever_the_order(db):
    new, old = good(1.0, timestamp=9.0), good(2.0, timestamp=3.0)
    db.save(trial(0), new)
    db.save(trial(0), old, extend=True)
    assert db.load(trial(0)) == new


def test_trials_are_told_apart_by_configuration_arguments_and_target(db):
    for number, inp in enumerate(
        [trial(0), trial(1), make_input(args=(1,)), make_input(target="llvm")]
    ):
        db.save(inp, good(1.0 + number))
    assert db.load(trial(1)).costs == (2.0,)
    assert db.load(make_input(args=(1,))).costs == (3.0,)
    assert db.load(make_input(target="llvm")).costs == (4.0,)


def test_messages_and_extras_are_kept(db):
    db.save(trial(0), failed(3, "ptxas says no"))
    db.save(trial(1), good(1.0, registers=32))
    assert db.load(trial(0)).error_msg == "ptxas says no"
    assert db.load(trial(1)).extra == {"registers": 32}


def test_a_filter_sees_each_trial_with_all_its_results(db):
    db.save(trial(0), good(1.0))
    db.save(trial(0), good(3.0), extend=True)
    db.save(trial(1), failed(4))
    found = db.filter(lambda inp, results: any(r.ok for r in results))
    assert [(inp.config.index, [r.costs for r in results]) for inp, results in found] == [
        (0, [(1.0,), (3.0,)])
    ]


def test_flushing_forgets_everything(db):
    db.save(trial(0), good(1.0))
    db.flush()
    assert db.load(trial(0)) is None
    assert db.filter(lambda inp, results: True) == []


def test_inputs_are_filtered_by_what_is_known(db):
    db.save(trial(0), good(1.0))
    db.save(trial(1), failed(4))
    inputs = [trial(i) for i in range(3)]
    assert [i.config.index for i in filter_inputs(db, inputs)] == [2]
    assert [i.config.index for i in filter_inputs(db, inputs, retry=True)] == [1, 2]


def test_records_come_back_in_the_order_in_which_they_were_saved(db):
    pairs = [(trial(i % 3), good(1.0 + i, timestamp=float(i))) for i in range(7)]
    db.extend(pairs[:4])
    db.extend(pairs[4:])
    db.extend([])
    assert [result.costs for _, result in db.records()] == [r.costs for _, r in pairs]
    assert [line.endswith("\n") for line in db.lines()] == [True] * 7


def test_a_race_is_no_trial_and_wins_when_it_is_replayed(db):
    slow, fast = trial(0), trial(1)
    race = raced(slow, fast)
    db.extend([(slow, good(2.0)), (fast, good(1.0)), race])
    assert len(list(db.records())) == 2
    assert [is_race(r) for _, r in db.records(races=True)] == [False, False, True]
    assert next(line for line in db.lines() if "race" in line).startswith("# race {")
    history = apply_history_best(db)
    config = history.query(slow.target, slow.task.workload)
    assert config.index == 0  # the winner of the race, though a trial of the other was faster


def test_the_state_changes_with_what_is_written_and_only_then(db):
    before = db.state()
    assert db.state() == before
    db.extend([(trial(0), good(1.0))])
    after = db.state()
    assert after != before
    assert db.load(trial(0)) is not None
    assert db.state() == after


def test_what_another_object_writes_is_seen_by_one_that_is_open(where_both):
    first, second = where_both
    first.save(trial(0), good(1.0))
    assert second.load(trial(0)).costs == (1.0,)
    second.save(trial(0), good(2.0))
    assert first.load(trial(0), get_all=True) == [good(2.0)]
    second.flush()
    assert first.load(trial(0)) is None
    first.extend([(trial(1), good(4.0))])
    assert [r.costs for _, r in second.records()] == [(4.0,)]


@pytest.fixture(params=SHARED)
def where_both(request, tmp_path):
    place = place_of(request, tmp_path)
    with open_database(place) as first, open_database(place) as second:
        yield first, second


def test_lines_that_are_no_records_are_kept_and_passed_over(db, caplog):
    db.write(["# network {}\n", "garbage", ""])
    db.extend([(trial(0), good(1.0))])
    assert [r.costs for _, r in db.records()] == [(1.0,)]
    assert "1 rows of " in caplog.text
    assert "could not be read" in caplog.text
    assert "# network {}\n" in list(db.lines())


WRITER = """
import sys
from autotune.record import open_database
from tests.record.records import good, make_config, make_input
place, who = sys.argv[1], int(sys.argv[2])
trials = [make_input(config=make_config(i, k=i)) for i in range(10)]
with open_database(place) as db:
    for i in range(10):
        db.save(trials[0], good(1.0 + who * 100 + i), extend=True)
        db.extend([(trials[1 + who], good(1.0 + i))])
    for i in range(2):
        db.save(trials[9], good(1.0 + who * 100 + i))
"""


@pytest.mark.parametrize("where", SHARED, indirect=True)
def test_a_database_is_shared_by_processes_that_open_it_at_once(where, forkserver):
    with Script(WRITER, where, 0) as first, Script(WRITER, where, 1) as second:
        pass
    assert [first.poll(), second.poll()] == [0, 0]
    with open_database(where) as db:
        assert len(db.load(trial(0), get_all=True)) == 20
        assert [len(db.load(trial(1 + who), get_all=True)) for who in range(2)] == [10, 10]
        assert db.load(trial(9)).ok


@pytest.mark.parametrize("where", ["sqlite", "postgresql"], indirect=True)
def test_of_those_who_replace_one_result_at_once_one_is_left(where):
    def save(number):
        with open_database(where) as db:
            for i in range(5):
                db.save(trial(0), good(1.0 + number + i / 10))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(4)))
    with open_database(where) as db:
        assert len(db.load(trial(0), get_all=True)) == 1


@pytest.mark.parametrize("where", SHARED, indirect=True)
def test_a_tuning_run_is_logged_resumed_and_replayed(where):
    task = autotune.create("tests.contract.stored", args=(64,), target="c")
    seen = []

    def tune(count):
        tuner = autotune.tuner.GridSearchTuner(task)
        runner = autotune.LocalRunner(number=1, repeat=1, cooldown_interval=0)
        option = autotune.measure_option(autotune.LocalBuilder(n_parallel=1), runner)
        calls = [autotune.callback.log_to_file(where), lambda _, inputs, __: seen.extend(inputs)]
        return tuner.tune(count, option, callbacks=calls, resume=where, finalists=0)

    tune(1)
    result = tune(2)
    assert [inp.config.index for inp in seen] == [0, 1]
    with open_database(where) as db:
        assert len(list(db.records())) == 2
    with autotune.apply_history_best(where), autotune.Target("c"):
        kernel = stored(64)
    assert f"STEP {result.best_config['step'].val}" in kernel.kernel("c").source


@autotune.template("tests.contract.stored")
def stored(n):
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 2])
    return autotune.SourceKernel(
        "twice",
        "void twice(float *x) { for (int i = 0; i < N; i += STEP)"
        " for (int j = i; j < i + STEP; ++j) x[j] *= 2; }",
        [autotune.arg("x", (n,), role="inout")],
        defines={"N": n, "STEP": cfg["step"].val},
        reference=lambda x: 2 * x,
    )


@pytest.mark.parametrize("where", SHARED, indirect=True)
def test_the_log_commands_read_it(where, tmp_path):
    with open_database(where) as db:
        db.extend([(trial(0), good(2e-6)), (trial(1), good(1e-6)), (trial(2), failed(3))])

    def run(*words):
        done = CliRunner().invoke(main, ["log", *words])
        assert done.exit_code == 0, done.output
        return done.output

    assert json.loads(run("show", where, "--json"))[0]["index"] == 1
    assert "best" in run("best", "--no-source", where)
    assert "same" in run("diff", where, where)
    assert run("pick", where, str(tmp_path / "best.log")).startswith("1 best record")
    assert "3 of 3 lines are new" in run("copy", where, str(tmp_path / "copy.log"))
    assert "0 of 3 lines are new" in run("copy", str(tmp_path / "copy.log"), where)
    kept = run("compact", where, "--out", str(tmp_path / "small.log"))
    assert kept.startswith("3 records kept")


def test_a_log_goes_from_any_kind_into_any_other_and_stays_the_same(tmp_path):
    log = tmp_path / "first.log"
    with LogDatabase(log) as db:
        db.extend([(trial(0), good(2.0)), raced(trial(0), trial(1))])
    places = [str(log), f"{tmp_path}/folder/", f"sqlite:///{tmp_path}/x.db", f"{tmp_path}/y.log"]
    for before, after in pairwise(places):
        with open_database(before) as one, open_database(after) as other:
            other.write(list(one.lines()))
    assert (tmp_path / "y.log").read_bytes() == log.read_bytes()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_of_before_there_were_versions_is_brought_up_to_date(kind, request, tmp_path):
    """The tables and rows are those that version 0.9 wrote."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(url)
    rows = [(trial(i % 600), good(1.0 + i)) for i in range(1200)]
    with engine.begin() as connection:
        for name in ("trials", "autotune_schema"):
            connection.execute(sqlalchemy.text(f"DROP TABLE IF EXISTS {name}"))
        serial = "INTEGER" if kind == "sqlite" else "SERIAL"
        table = f"CREATE TABLE trials (number {serial} PRIMARY KEY, key TEXT NOT NULL, row TEXT)"
        connection.execute(sqlalchemy.text(table))
        connection.execute(sqlalchemy.text("CREATE INDEX by_key ON trials (key)"))
        insert = sqlalchemy.text("INSERT INTO trials (key, row) VALUES (:key, :row)")
        made = [{"key": measure_str_key(inp), "row": encode(inp, res)} for inp, res in rows]
        connection.execute(insert, made)
    engine.dispose()

    def opened(_):
        with open_database(url) as db:
            return db.load(trial(7), get_all=True)

    with ThreadPoolExecutor(3) as pool:  # one brings it up to date, the others wait for that
        found = list(pool.map(opened, range(3)))
    assert [[r.costs for r in one] for one in found] == [[(8.0,), (608.0,)]] * 3
    with open_database(url) as db:
        assert len(list(db.lines())) == 1200
        db.save(trial(7), good(0.5))
        assert db.load(trial(7), get_all=True) == [good(0.5)]


def test_the_state_changes_when_the_last_result_is_replaced_or_all_are_forgotten(db):
    db.extend([(trial(0), good(1.0)), (trial(1), good(2.0))])
    seen = [db.state()]
    db.save(trial(1), good(3.0))
    seen.append(db.state())
    for index in range(2):
        db.flush()
        db.extend([(trial(index), good(1.0))])
        seen.append(db.state())
    assert len(set(seen)) == 4


def test_rewriting_by_another_object_is_seen_though_the_file_gets_its_number_again(where_both):
    reader, writer = where_both
    writer.extend([(trial(i), good(1.0)) for i in range(3)])
    assert reader.load(trial(0)) == good(1.0)
    for step in range(3):
        for cost in (2.0 + step, 5.0 + step):
            writer.save(trial(0), good(cost))
        assert reader.load(trial(0), get_all=True) == [good(5.0 + step)]


def test_a_key_may_be_longer_than_an_index_takes(db):
    long = make_input(args=("x" * 20_000,))
    db.save(long, good(1.0))
    assert db.load(long).costs == (1.0,)
