"""Files of records that others changed, made or wrote before: logs, and databases of SQLite."""

import hashlib
import json
import sqlite3
import time
from contextlib import closing

import pytest
from click.testing import CliRunner

import autotune
from autotune.cli.main import main
from autotune.errors import RecordError
from autotune.record import (
    LogDatabase,
    SqlDatabase,
    SqliteDatabase,
    encode,
    measure_str_key,
    open_database,
)
from tests.record.records import good, make_config, make_input


def trial(index):
    return make_input(config=make_config(index, k=index))


def test_a_file_of_sqlite_is_known_by_its_first_bytes(tmp_path):
    with SqliteDatabase(tmp_path / "trials") as db:
        db.extend([(trial(0), good(1.0))])
    with open_database(tmp_path / "trials") as db:
        assert isinstance(db, SqlDatabase)


def test_version_2_in_sqlite_keeps_its_rows_in_order_when_it_becomes_version_3(tmp_path):
    path = tmp_path / "old.db"
    lines = [encode(trial(i), good(1.0 + i)) for i in range(3)]
    keys = [measure_str_key(trial(i)) for i in range(3)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "CREATE TABLE trials (number INTEGER NOT NULL, digest VARCHAR(64) NOT NULL,"
            " row TEXT NOT NULL, PRIMARY KEY (number));"
            "CREATE INDEX ix_trials_digest ON trials (digest);"
            "CREATE TABLE autotune_schema (version INTEGER);"
            "INSERT INTO autotune_schema VALUES (2);"
        )
        rows = [(7 - i, hashlib.sha256(keys[i].encode()).hexdigest(), lines[i]) for i in range(3)]
        connection.executemany("INSERT INTO trials VALUES (?, ?, ?)", rows)
    with open_database(path) as db:
        assert [line.strip() for line in db.lines()] == lines[::-1]
        before = db.state()
        db.save(trial(0), good(9.0))
        assert db.state() != before
        assert db.load(trial(1)).costs == (2.0,)


def test_a_log_that_was_changed_in_place_is_read_anew(tmp_path):
    """By a row of equal length in the middle, by one that follows too, and by other rows."""
    path = tmp_path / "x.log"
    db = LogDatabase(path)
    old, new = (encode(trial(0), good(cost)) for cost in (1.5, 2.5))
    after = encode(trial(1), good(1.0))
    path.write_text(f"{old}\n{after}\n")
    assert db.load(trial(0)) == good(1.5)
    for text in (f"{new}\n{after}\n", f"{old}\n{after}\n{after}\n", f"{after}\n{new}\n" * 2):
        time.sleep(0.01)
        path.write_text(text)
        assert db.load(trial(0)) == good(1.5 if old in text else 2.5)


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\u2029"])
def test_a_row_may_hold_signs_that_end_lines_elsewhere(tmp_path, sign):
    row = json.loads(encode(trial(0), good(1.0))) | {"note": f"a{sign}b"}
    for ending in ("\n", "\r\n"):
        path = tmp_path / "signs.log"
        path.write_text(json.dumps(row, ensure_ascii=False) + ending, newline="")
        assert len(list(LogDatabase(path).records())) == 1
        assert LogDatabase(path).load(trial(0)).costs == (1.0,)


def test_reading_changes_nothing_in_a_file_of_another_program(tmp_path):
    for name, columns in (("places", "x INTEGER"), ("trials", "trial_id INTEGER, state TEXT")):
        path = tmp_path / f"{name}.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"CREATE TABLE {name} ({columns})")
        before = path.read_bytes()
        done = CliRunner().invoke(main, ["log", "show", str(path)])
        assert done.exit_code != 0
        assert f"no database of trials, its tables are others' ({name})" in done.output
        with pytest.raises(RecordError, match="no database of trials"):
            open_database(path)
        assert path.read_bytes() == before


def test_a_reader_waits_for_no_writer_and_needs_no_right_to_write(tmp_path):
    path = tmp_path / "x.db"
    with open_database(f"sqlite:///{path}") as db:
        assert (list(db.lines()), db.load(trial(0)), db.state()) == ([], None, (0, None))
        assert path.stat().st_size == 0  # nothing is made for one who reads
        db.extend([(trial(0), good(1.0))])
    read_only = f"sqlite:///file:{path}?mode=ro&uri=true"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        for place in (path, read_only):
            assert len(list(autotune.record.load_from_file(place))) == 1
    with open_database(read_only) as db, pytest.raises(RecordError, match="readonly"):
        db.extend([(trial(1), good(1.0))])


@pytest.mark.parametrize("nothing", ["", "file://"])
def test_an_empty_text_is_no_place(nothing):
    with pytest.raises(RecordError, match="got an empty text"):
        open_database(nothing)


def test_a_database_of_a_newer_version_is_left_alone(tmp_path):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    with open_database(url) as db:
        db.extend([(trial(0), good(1.0))])
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection, connection:
        connection.execute("UPDATE autotune_schema SET version = 99")
    with pytest.raises(RecordError, match=r"version 99, expected at most 3; a newer autotune"):
        open_database(url)


def test_reading_makes_no_database(tmp_path):
    url = f"sqlite:///{tmp_path / 'none.db'}"
    with pytest.raises(RecordError, match="there is no database"):
        autotune.record.load_from_file(url)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, " * 100)
    with pytest.raises(RecordError, match=r"database .*notes.txt: file is not a database"):
        SqliteDatabase(path)
