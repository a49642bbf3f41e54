"""Logs that gzip packed: read like others, written as a whole, never appended to."""

import gzip
import os
import threading

import pytest

from autotune.dashboard import Model
from autotune.dashboard.tail import CHUNK, Tail
from autotune.errors import RecordError
from autotune.record import ApplyHistoryBest, load_from_file, open_database
from autotune.record.compaction import compact, pick_best
from autotune.record.log_database import LogDatabase
from autotune.record.packed import MAGIC
from autotune.record.writer import LogWriter
from tests.cli.log_commands import GEMM, pair, run
from tests.record.records import good

PAIRS = [pair(GEMM, i, good(1 / (i + 1)), tile=i) for i in range(50)]


@pytest.fixture
def packed(tmp_path):
    plain = tmp_path / "x.log"
    LogWriter(plain).extend(PAIRS)
    path = tmp_path / "packed" / "x.log.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


def test_a_packed_log_is_read_as_the_log_is(packed):
    assert [inp.key for inp, _ in load_from_file(packed)] == [inp.key for inp, _ in PAIRS]
    assert len(ApplyHistoryBest(packed).best_by_targetkey) == 1
    assert "50 trials of 1 workload" in run("show", packed).output


def test_packed_logs_may_follow_each_other_in_a_file(packed):
    content = packed.read_bytes()
    packed.write_bytes(content + content + b"\0" * 512)
    assert len(list(load_from_file(packed))) == 2 * len(PAIRS)


def test_a_packed_log_may_come_through_a_pipe(packed):
    reading, writing = os.pipe()
    content = packed.read_bytes()

    def write():
        with open(writing, "wb", buffering=0) as file:
            file.write(content[:1])
            file.write(content[1:])

    writer = threading.Thread(target=write)
    writer.start()
    assert len(list(load_from_file(f"/dev/fd/{reading}"))) == len(PAIRS)
    writer.join()
    os.close(reading)


def test_a_packed_log_in_a_folder_is_read_with_the_others(packed):
    (packed.parent / "notes.txt.gz").write_bytes(b"no log")
    LogWriter(packed.parent / "y.log").extend(PAIRS[:3])
    database = open_database(packed.parent)
    assert len(list(database.records())) == len(PAIRS) + 3
    assert database.load(PAIRS[7][0]).seconds == PAIRS[7][1].seconds


def test_a_packed_log_that_was_cut_short_says_so(packed):
    packed.write_bytes(packed.read_bytes()[:-30])
    with pytest.raises(RecordError, match=r"x.log.gz: its gzip data end early"):
        list(load_from_file(packed))
    with pytest.raises(RecordError, match="its gzip data end early"):
        compact(packed)
    with pytest.raises(RecordError, match="its gzip data end early"):
        LogDatabase(packed).load(PAIRS[0][0])
    model = Model([packed])
    model.read()
    (shown,) = model.overview()["logs"]
    assert shown["state"].startswith("its gzip data end early")
    assert shown["trials"] > 0


def test_a_damaged_packed_log_says_so(packed):
    content = bytearray(packed.read_bytes())
    content[200:204] = b"xxxx"
    packed.write_bytes(content)
    done = run("show", packed)
    assert done.exit_code == 1
    assert "x.log.gz: its gzip data are damaged" in done.output


def test_logs_are_packed_where_the_name_of_the_output_says_so(packed, tmp_path):
    out = tmp_path / "best.log.gz"
    assert pick_best(tmp_path / "x.log", out) == 1
    assert len(list(load_from_file(out))) == 1
    assert gzip.decompress(out.read_bytes()).startswith(b"{")
    assert pick_best(packed, out) == 1
    assert compact(packed) == (len(PAIRS), 0)
    assert gzip.decompress(packed.read_bytes()).count(b"\n") == len(PAIRS)


def test_saving_in_a_packed_log_replaces_a_row(packed):
    inp, _ = PAIRS[5]
    LogDatabase(packed).save(inp, good(0.5))
    assert LogDatabase(packed).load(inp).seconds == 0.5
    assert gzip.decompress(packed.read_bytes()).count(b"\n") == len(PAIRS)


def test_a_packed_log_is_not_appended_to(packed, tmp_path):
    content = packed.read_bytes()
    with pytest.raises(RecordError, match=r"packed logs are read.*log to .*x\.log, after"):
        LogWriter(packed)
    with pytest.raises(RecordError, match="packed logs are read"):
        LogWriter(tmp_path / "new.log.gz")
    with pytest.raises(RecordError, match="packed logs are read"):
        LogDatabase(packed).write(["{}"])
    assert packed.read_bytes() == content


def test_the_live_page_follows_a_packed_log(packed):
    tail, lines = Tail(packed), []
    while (news := tail.news()).more or news.lines:
        lines += news.lines
    assert len(lines) == len(PAIRS)
    assert tail.state == "following"


def test_a_packed_log_that_is_being_copied_is_followed_byte_by_byte(packed):
    content = packed.read_bytes()
    packed.write_bytes(b"")
    tail, lines = Tail(packed), []
    for end in range(1, len(content) + 1):
        with packed.open("r+b") as file:
            file.write(content[:end])
        news = tail.news()
        assert not news.restarted
        lines += news.lines
    assert len(lines) == len(PAIRS)
    assert tail.state == "following"


@pytest.mark.parametrize("place", [2, -300])
def test_a_damaged_packed_log_that_is_copied_again_in_place_is_shown_again(packed, place):
    content = packed.read_bytes()
    packed.write_bytes(content[:place] + b"xxxx" + content[place:][4:])
    tail, damaged = Tail(packed), []
    for _ in range(3):
        assert not tail.news().more
        damaged.append(tail.state)
    assert all(state.startswith("its gzip data are damaged") for state in damaged)
    packed.write_bytes(content + b"\0" * 512)
    news = tail.news()
    assert news.restarted
    assert (len(news.lines), tail.state) == (len(PAIRS), "following")


def test_a_log_whose_place_a_damaged_packed_one_takes_is_not_shown_any_more(packed, tmp_path):
    tail = Tail(tmp_path / "x.log")
    assert len(tail.news().lines) == len(PAIRS)
    (tmp_path / "x.log").write_bytes(MAGIC + b"xxxx" * 100)
    assert tail.news().restarted


def test_what_a_database_of_a_log_knows_does_not_grow_when_it_is_asked_again(packed, tmp_path):
    for path in (packed, tmp_path / "x.log"):
        database = LogDatabase(path)
        for _ in range(2):
            assert database.load(PAIRS[0][0]) is not None
        assert not database.holds("")


def test_a_small_packed_file_that_unpacks_to_an_endless_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.record.bounded_lines._ENDLESS", 1 << 24)
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(bytes(3 << 24), 1))
    assert path.stat().st_size < 1 << 18
    with pytest.raises(RecordError, match="a line of it has no end"):
        list(load_from_file(path))


def test_the_live_page_takes_no_more_of_a_packed_log_at_a_time_than_of_another(tmp_path):
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(b"\n" * (1 << 20)))
    tail = Tail(path)
    looks = [tail.news()]
    while looks[-1].more:
        looks.append(tail.news())
    assert sum(len(news.lines) for news in looks) == 1 << 20
    assert max(len(news.lines) for news in looks) <= CHUNK
