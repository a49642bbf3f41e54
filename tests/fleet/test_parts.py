"""What a fleet is made of: messages, files by their hashes, and lines that are fair."""

import contextlib
import math
import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import FleetError
from autotune.fleet import file_store
from autotune.fleet.encoding import from_plain, to_plain, with_lists
from autotune.fleet.fair_queue import FairQueue
from autotune.fleet.file_store import Digests, FileStore, chunks_of, content_digest
from autotune.fleet.headers import pack_headers, unpack_headers
from autotune.fleet.messages import (
    Build,
    Built,
    Data,
    Done,
    Facts,
    FileChunk,
    Forget,
    Missing,
    Received,
    Run,
    Sender,
    Unable,
    answer_of,
    answer_to_plain,
    ask_of,
    ask_to_plain,
)
from autotune.fleet.relocate import files_of, relocate
from autotune.fleet.wire import packed, unpacked
from autotune.kernel import Argument, Constant, Kernel, KernelCall, Launch, Scalar, Workspace
from autotune.measure.build.job import BuildJob
from autotune.measure.run.jobs import CeilingJob, Check, RaceJob, RunJob
from autotune.measure.run.replies import Ran, reply_of, to_json
from autotune.measure.run.timing import TimingPolicy
from autotune.measure.types import MeasureErrorNo
from autotune.runtime import summarize

KERNEL = Kernel(
    "f",
    "cuda",
    'extern "C" __global__ void f(float *y, int n) { }  // \u00e9',
    (
        Argument("y", (4, 2), "float32", "out"),
        Scalar("n", dtype="int32", value=7),
        Constant("k", (3,), "float32"),
    ),
    (KernelCall("f", ("y", "n", "w"), Launch((1, 2, 3), (4, 5, 6), 7)),),
    (Workspace("w", (9,), "float64", zero=True),),
    ("-lineinfo",),
    "0123",
)
RUN = RunJob(
    "a" * 64 + ".cubin", KERNEL, 3.0, TimingPolicy(number=2, near=1.5), ("b" * 64 + ".npy",),
    (Check("y", "c" * 64 + ".npy", "d" * 64 + ".npy", 0.5, "sums"), Check("z", "e" * 64)),
    "always", None, True, None,
)  # fmt: skip
JOBS = [RUN, RaceJob((RUN, RUN), 3, 1e-3, 9.0, 1), CeilingJob(5.0)]
SENDER = Sender("abc", 2.0)


@pytest.mark.parametrize("value", [KERNEL, *JOBS, BuildJob(KERNEL, "cuda", 5.0, "nvcc", "")])
def test_what_travels_arrives_as_it_was(value):
    plain = to_plain(value)
    assert from_plain(type(value), plain) == value
    again = from_plain(type(value), plain)
    if isinstance(value, Kernel):
        assert again.kernel_hash == value.kernel_hash


ASKS = [
    Build(SENDER, BuildJob(KERNEL, "cuda", 5.0, "nvcc", ""), 7.0, (("/a/b.h", "text"),)),
    *[Run(SENDER, job, "cuda:0", "cuda", 3, 0.1, 0, {"f" * 64: b"x"}) for job in JOBS],
    FileChunk("ab-1", "a" * 64 + ".npy", 0, 5, b"abcde"),
    Facts(),
    Forget("abc"),
]
ANSWERS = [
    Built(b"code", ".cubin", {"registers": 3}, MeasureErrorNo.NO_ERROR, "", 0.5, "hash"),
    Done({"reply": "Rated"}, 0.25),
    Missing(("a" * 64,)),
    Received(),
    Unable("no room", True),
    Data({"a": 1}),
]


@pytest.mark.parametrize("ask", ASKS, ids=lambda one: type(one).__name__)
def test_a_question_arrives_as_it_was(ask):
    assert ask_of(ask_to_plain(ask)) == ask


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: type(one).__name__)
def test_an_answer_arrives_as_it_was(answer):
    assert answer_of(answer_to_plain(answer)) == answer


def damaged(rng, value):
    """Return plain data with one thing in it replaced, dropped or doubled."""
    odd = [None, -1, 1e300, "x", b"y", [], {}, {"is": "Kernel"}, {"is": "os.system"}, "../../x"]
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        changed = dict(value)
        if rng.random() < 0.3:
            del changed[key]
        else:
            changed[key] = damaged(rng, value[key])
        return changed
    if isinstance(value, list) and value and rng.random() < 0.8:
        index = rng.randrange(len(value))
        return [*value[:index], damaged(rng, value[index]), *value[index + 1 :]]
    return rng.choice(odd)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_is_sent_is_read_or_refused_in_words(seed):
    rng = random.Random(seed)
    for read, messages, write in (
        (ask_of, ASKS, ask_to_plain),
        (answer_of, ANSWERS, answer_to_plain),
    ):
        message = write(rng.choice(messages))
        for _ in range(rng.randrange(1, 3)):
            message = damaged(rng, message)
        with contextlib.suppress(FleetError):
            read(message)


def test_an_answer_arrives_as_it_was_said():
    msgpack = pytest.importorskip("msgpack")
    ran = Ran(summarize([1e-5, 2e-5, 3e-5], 4), verified=True, phases={"time": 1.5})
    sent = msgpack.packb(answer_to_plain(Done(to_json(ran), 0.5)))
    got = answer_of(msgpack.unpackb(sent, use_list=False))
    assert isinstance(got, Done)
    assert reply_of(got.reply) == ran


def test_another_version_of_the_protocol_is_named():
    message = {**ask_to_plain(Facts()), "protocol": 99}
    with pytest.raises(FleetError, match="install the same autotune on both"):
        ask_of(message)


def test_a_name_that_is_no_hash_is_no_file():
    message = ask_to_plain(FileChunk("ab", "../../etc/passwd", 0, 1, b"x"))
    with pytest.raises(FleetError, match="is no hash"):
        ask_of(message)


def test_all_files_of_a_job_are_found_and_moved():
    job = JOBS[1]
    assert len(files_of(job)) == 5
    moved = relocate(job, lambda name: f"/x/{name[:1]}")
    assert files_of(moved) == ["/x/a", "/x/b", "/x/c", "/x/d", "/x/e"]
    assert moved.runs[0].checks[1].bounds == ""


# ---- files


def test_a_file_in_parts_arrives_whole_and_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(file_store, "CHUNK_BYTES", 1000)
    path = tmp_path / "a.npy"
    path.write_bytes(random.Random(1).randbytes(3500))
    name, store = Digests().name(str(path)), FileStore()
    parts = list(chunks_of(str(path)))
    assert [len(data) for _, _, data in parts] == [1000, 1000, 1000, 500]
    for start, total, data in parts:
        store.add_chunk("t1", name, start, total, data)
    assert Path(store.path(name)).read_bytes() == path.read_bytes()
    for start, total, data in parts[:1] + parts[2:3]:
        if start == 0:
            store.add_chunk("t2", name, start, total, data)
        else:
            with pytest.raises(FleetError, match="is missing"):
                store.add_chunk("t2", name, start, total, data)
    store.close()


def test_an_empty_file_arrives(tmp_path):
    path = tmp_path / "a.npy"
    path.touch()
    name, store = Digests().name(str(path)), FileStore()
    for start, total, data in chunks_of(str(path)):
        store.add_chunk("t1", name, start, total, data)
    assert store.path(name)
    store.close()


def test_a_damaged_file_is_not_kept():
    store, name = FileStore(), content_digest(b"right")
    with pytest.raises(FleetError, match="arrived damaged"):
        store.add(name, b"wrong")
    with pytest.raises(FleetError, match="arrived damaged"):
        store.add_chunk("t", name, 0, 5, b"wrong")
    assert store.path(name) is None
    assert store.bytes == 0
    store.close()


def test_files_go_when_there_are_too_many_but_none_that_is_held():
    store = FileStore(most_bytes=250)
    data = [bytes([i]) * 100 for i in range(4)]
    names = [content_digest(one) for one in data]
    store.hold([names[0]])
    for name, one in zip(names, data, strict=True):
        store.add(name, one)
    assert [store.path(name) is not None for name in names] == [True, False, False, True]
    store.release([names[0]])
    store.add(names[1], data[1])
    assert store.path(names[0]) is None
    store.close()


# ---- lines


def test_clients_share_a_device_by_weight_of_time():
    line = FairQueue()
    took = {"light": 0.0, "heavy": 0.0}
    cost, weight = {"light": 3.0, "heavy": 1.0}, {"light": 1.0, "heavy": 2.0}
    for name in took:
        for _ in range(2):
            line.put(name, weight[name], name)
    for _ in range(900):
        name, charge = line.take()
        took[name] += cost[name]
        charge(cost[name])
        line.put(name, weight[name], name)
    assert took["heavy"] / took["light"] == pytest.approx(2.0, rel=0.02)


def test_who_comes_late_saved_up_no_time():
    line = FairQueue()
    for _ in range(200):
        line.put("early", 1.0, "early")
    for _ in range(100):
        line.take()[1](1.0)
    for _ in range(50):
        line.put("late", 1.0, "late")
    first = []
    for _ in range(40):
        name, charge = line.take()
        first.append(name)
        charge(1.0)
    assert 18 <= first.count("late") <= 22


def test_a_line_forgets_clients_that_were_killed_but_not_who_used_the_most():
    line = FairQueue()
    line.put("greedy", 1.0, "greedy")
    line.take()[1](1e6)
    for number in range(1000):
        line.put(f"client {number}", 1.0, "x")
        line.take()[1](1.0)
    assert len(line._used) < 200
    line.put("greedy", 1.0, "greedy")
    line.put("other", 1.0, "other")
    assert line.take()[0] == "other"


@pytest.mark.parametrize("seconds", [math.inf, math.nan, 0.0, -1.0, 1e9, "long"])
def test_nobody_asks_for_a_device_or_a_builder_for_ever(seconds):
    for ask in ASKS[:2]:
        message = ask_to_plain(ask)
        (message if isinstance(ask, Build) else message["job"])["timeout_s"] = seconds
        with pytest.raises(FleetError, match=r"timeout|number"):
            ask_of(message)


def test_a_line_ends_for_who_waits():
    line = FairQueue()
    got = []
    thread = threading.Thread(target=lambda: got.append(line.take()))
    thread.start()
    line.put("a", 1.0, "x")
    thread.join(5)
    assert got[0][0] == "x"
    line.put("a", 1.0, "y")
    assert line.drop("a") == ["y"]
    line.put("a", 1.0, "z")
    assert line.close() == ["z"]
    assert line.take() is None


# ---- headers


def test_headers_are_written_where_flags_find_them(tmp_path):
    inner = tmp_path / "client" / "include"
    inner.mkdir(parents=True)
    (inner / "a.h").write_text("#define A 1\n")
    kernel = Kernel(
        "f", "c", '#include "a.h"\n', (Argument("y", (1,), "int32", "out"),),
        (KernelCall("f", ("y",)),), flags=(f"-I{inner}", "-O1"),
    )  # fmt: skip
    packed, headers = pack_headers(kernel)
    assert [text for _, text in headers] == ["#define A 1\n"]
    there = tmp_path / "worker"
    made = unpack_headers(headers, packed, there)
    folders = [flag[2:] for flag in made.flags if flag.startswith("-I")]
    assert (tmp_path / folders[0] / "a.h").read_text() == "#define A 1\n"
    assert str(there) in folders[0]
    assert made.flags[-1] == "-O1"
    assert unpack_headers(headers, packed, there).flags == made.flags


def test_no_header_is_written_outside_its_folder(tmp_path):
    kernel = Kernel(
        "f", "c", "", (Argument("y", (1,), "int32", "out"),), (KernelCall("f", ("y",)),)
    )
    unpack_headers(
        (("/../../../escaped.h", "x"), ("../out.h", "y")), kernel, tmp_path / "in" / "deep"
    )
    inside = {path.name for path in (tmp_path / "in" / "deep").rglob("*.h")}
    assert inside == {"escaped.h", "out.h"}
    assert {path.name for path in tmp_path.rglob("*.h")} == inside


@pytest.mark.parametrize("message", [*map(ask_to_plain, ASKS), *map(answer_to_plain, ANSWERS)])
def test_a_message_crosses_the_wire_as_one_string_of_bytes(message):
    pytest.importorskip("msgpack")
    assert with_lists(unpacked(packed(message))) == with_lists(message)
    odd = {"said": "\udcff\ud800"}
    assert unpacked(packed(odd)) == odd


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x81", b"\x91" * 5000, b"\xa2\xff\xff", b"\x01\x02"]
)
def test_bytes_that_hold_no_message_are_answered_in_words(data):
    pytest.importorskip("msgpack")
    with pytest.raises(FleetError, match="malformed request"):
        ask_of(unpacked(data))
    with pytest.raises(FleetError, match="malformed answer"):
        answer_of(unpacked(data))
