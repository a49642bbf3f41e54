"""Databases behind a URL: what is refused, what is shown, and who is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from autotune.errors import RecordError
from autotune.record import (
    LogWriter,
    load_from_file,
    open_database,
)
from tests.contract.test_databases import trial
from tests.record.records import good


def test_passwords_are_never_shown(tmp_path):
    url = "postgresql://tuner:secret@127.0.0.1:1/nowhere"
    with pytest.raises(RecordError, match=r"database postgresql.*refused") as caught:
        open_database(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(RecordError, match=r"tuner:\*\*\*@") as caught:
        LogWriter(url)
    assert "secret" not in str(caught.value)
    for url in (
        "postgresql://127.0.0.1:1/nowhere?user=tuner&password=secret",
        "postgresql://tuner:top@secret@127.0.0.1:1/nowhere",
    ):
        with pytest.raises(RecordError, match=r"\*\*\*") as caught:
            open_database(url)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://x/y", "expected a URL of sqlite or postgresql"),
        ("nothing://x", "nothing://x"),
        ("sqlite:///no/such/folder/x.db", "unable to open database file"),
        ("sqlite://x.db", "names no file.* such as sqlite:///trials.db"),
        ("sqlite:///:memory:", "records in memory are gone when the process ends"),
        ("sqlite:x.db", "begins with sqlite://, such as sqlite:///trials.db"),
        ("postgresql:/host/x", "begins with postgresql://"),
        ("postgresql://me:a@b@host/x", "more than one @; in a password it is written %40"),
    ],
)
def test_a_url_that_names_no_store_is_refused(url, said):
    with pytest.raises(RecordError, match=said):
        open_database(url)


@pytest.mark.parametrize(
    "url", ["sqlite:///{}/a%20b.db", "sqlite:///{}/a b.db", "file://{}/a%20b.db"]
)
def test_a_url_names_one_file_to_who_writes_and_who_reads(url, tmp_path):
    with open_database(url.format(tmp_path)) as database:
        database.extend([(trial(0), good(1.0))])
    assert len(list(load_from_file(url.format(tmp_path)))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a b.db"]


def test_without_sqlalchemy_a_database_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "import autotune\nfrom autotune.record import open_database\n"
        "open_database(sys.argv[1]).extend([])\n"
        "try: open_database('sqlite:///x.db')\n"
        "except autotune.AutotuneError as error: print(error)\n"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "x.log")]
    said = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "pip install 'autotune[sql]'" in said


def test_a_writer_that_is_killed_leaves_whole_lines_only(tmp_path):
    url = f"sqlite:///{tmp_path / 'killed.db'}"
    code = (
        "import os, sys\n"
        "from autotune.record import open_database\n"
        "from tests.record.records import good, make_input\n"
        "db = open_database(sys.argv[1])\n"
        "db.extend([(make_input(), good(1.0))])\n"
        "with db._transaction() as connection:\n"
        "    db._insert(connection, ['half'])\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parent.parent.parent
    run = [sys.executable, "-c", code, url]
    assert subprocess.run(run, cwd=root, timeout=60, check=False).returncode == -9
    with open_database(url) as db:
        assert len(list(db.lines())) == 1
        db.extend([(trial(1), good(1.0))])
