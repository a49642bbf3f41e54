"""What every database of trials does."""

import subprocess
import sys
from pathlib import Path

import pytest

from autotune.errors import RecordError
from autotune.record import DummyDatabase, SqliteDatabase, filter_inputs
from tests.record.records import failed, good, make_config, make_input


@pytest.fixture(params=["memory", "file"])
def db(request, tmp_path):
    if request.param == "memory":
        yield DummyDatabase()
        return
    database = SqliteDatabase(tmp_path / "trials.db")
    yield database
    database.close()


def trial(index):
    return make_input(config=make_config(index, k=index))


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


def test_a_file_is_shared_by_processes(tmp_path):
    path = tmp_path / "shared.db"
    code = (
        "import sys\n"
        "from autotune.record import SqliteDatabase\n"
        "from tests.contract.test_databases import good, trial\n"
        "db = SqliteDatabase(sys.argv[1])\n"
        "for i in range(40):\n"
        "    db.save(trial(0), good(1.0 + float(sys.argv[2]) + i), extend=True)\n"
        "db.close()\n"
    )
    run = [sys.executable, "-c", code, str(path)]
    root = Path(__file__).parent.parent.parent
    writers = [subprocess.Popen([*run, str(who * 100)], cwd=root) for who in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    db = SqliteDatabase(path)
    assert len(db.load(trial(0), get_all=True)) == 120
    db.close()


def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, " * 100)
    with pytest.raises(RecordError, match=r"database .*notes.txt: file is not a database"):
        SqliteDatabase(path)
