"""What a mad worker, a stranger or a killed client can do to the others: cost them nothing."""

import asyncio
import contextlib
import errno
import socket
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from autotune.cli.fleet import _encrypted
from autotune.cli.main import main
from autotune.errors import FleetError
from autotune.fleet import executors, file_store
from autotune.fleet.encoding import with_lists
from autotune.fleet.file_store import Digests, FileStore, content_digest
from autotune.fleet.member import Member
from autotune.fleet.messages import (
    Answer,
    Built,
    Data,
    Done,
    Facts,
    FileChunk,
    Missing,
    Run,
    Unable,
    answer_of,
    answer_to_plain,
    ask_of,
    ask_to_plain,
)
from autotune.fleet.queue import PlaceLost, PlaceUnable
from autotune.fleet.remote_device import RemoteDeviceProcess
from autotune.measure.run.replies import Ran, to_json
from autotune.runtime import summarize
from tests.fleet import doubles
from tests.fleet.doubles import FACTS
from tests.fleet.test_parts import RUN, SENDER
from tests.forked import Script

# ---- answers

BUILT = Built(b"code", ".so", {"registers": 3}, 0, "", 0.5, "hash")
DONE = Done({"reply": "Rated"}, 0.25)


def nested(depth):
    """Return lists in lists."""
    found = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("answer", "field", "value"),
    [
        (BUILT, "artifact", 10**13),
        (BUILT, "suffix", ".so\0"),
        (BUILT, "suffix", "/../../x"),
        (BUILT, "suffix", "." + "x" * 300),
        (BUILT, "resources", {"registers": float("inf")}),
        (BUILT, "error_msg", nested(5000)),
        (BUILT, "time_cost", float("nan")),
        (DONE, "waited_s", float("inf")),
        (DONE, "queued_s", "long"),
        (DONE, "reply", [1]),
        (Missing(("a",)), "names", [["a"]]),
        (Data({}), "data", [["a", "b"]]),
    ],
)
def test_an_answer_that_makes_no_sense_is_the_worker_s_fault_and_not_the_run_s(
    answer, field, value
):
    with pytest.raises(FleetError, match="malformed answer"):
        answer_of({**answer_to_plain(answer), field: value})


def test_a_number_is_no_contents_of_a_file():
    message = {**ask_to_plain(FileChunk("ab", "a" * 64, 0, 5, b"")), "data": 10**13}
    with pytest.raises(FleetError, match="bytes are expected"):
        ask_of(message)


def test_a_reason_has_no_power_over_a_terminal_and_an_end():
    told = answer_of(answer_to_plain(Unable("\x1b[2J" + "x" * 10**6, False)))
    assert "\x1b" not in told.reason
    assert len(told.reason) < 10**4


# ---- jobs


class Answering:
    """In place of a `Member`: answers what it is told to."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def name_of(self, path):
        return content_digest(path.encode())

    def has(self, name):
        return True

    def ask(self, ask):
        return self.answers.pop(0)

    def note_sent(self, *names):
        pass

    def deliver(self, name, path):
        pass


def ran(*seconds):
    """Return a reply that tells these times."""
    timing = summarize([1e-5] * max(1, len(seconds)), 1)
    return Done(with_lists(to_json(Ran(replace(timing, samples_s=seconds)))))


def process_of(*answers):
    here = SimpleNamespace(
        device=lambda number: None, at=lambda number: (Answering(*answers), "x")
    )
    return RemoteDeviceProcess(here, 0, SENDER, "c", 0, 0.0, 0)


@pytest.mark.parametrize(
    "answer",
    [
        ran(float("nan")),
        ran(1e-5, -1.0),
        ran(float("inf")),
        ran(0.0),
        ran(1e-5, 1e-30),
        ran(),
        Missing(("f" * 64,)),
    ],
)
def test_a_worker_that_tells_nonsense_of_a_trial_is_unable_and_the_trial_goes_elsewhere(answer):
    with pytest.raises(PlaceUnable, match=r"times that are none|files of no job"):
        process_of(answer).run(RUN)


def test_times_that_make_sense_are_believed():
    assert process_of(ran(1e-5, 2e-5)).run(RUN).timing.samples_s == (1e-5, 2e-5)


def test_a_call_that_is_given_up_holds_no_connection():
    asked = Future()
    member = Member(SimpleNamespace(ask=lambda *_: asked), "tcp://x", FACTS, Digests(), None)
    call = member.begin(Facts())
    member.lose("it is silent")
    assert asked.cancelled()
    with pytest.raises(PlaceLost, match="it is silent"):
        call.result(0)


def test_a_client_does_not_remember_all_that_it_ever_sent(tmp_path):
    member = Member(None, "tcp://x", FACTS, Digests(), None)
    for number in range(10_000):
        member.note_sent(str(number))
    assert member.has("9999")
    assert len(member._sent) < 5000


# ---- files


def test_what_a_killed_client_sent_in_part_goes(monkeypatch):
    store = FileStore()
    store.add_chunk("dead", "a" * 64, 0, 100, b"x" * 50)
    assert store.bytes == 50
    monkeypatch.setattr(file_store, "_LATE_S", 0.0)
    store.add_chunk("alive", content_digest(b"y"), 0, 1, b"y")
    assert store.bytes == 1
    assert [path.name for path in store.place("x").parent.iterdir()] == [content_digest(b"y")]
    store.close()


def test_a_full_disk_is_freed_of_what_nobody_uses():
    store, data = FileStore(), [bytes([i]) * 100 for i in range(3)]
    for one in data:
        store.add(content_digest(one), one)
    store.hold([content_digest(data[1])])
    arriving = store.place("ab-" + "a" * 64)
    arriving.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        store.add_chunk("ab", "a" * 64, 0, 100, b"x" * 50)
    assert not arriving.is_symlink()
    assert [store.path(content_digest(one)) is not None for one in data] == [False, True, False]
    assert store.bytes == 100
    store.close()


def test_a_file_that_is_sent_again_is_counted_once():
    store = FileStore()
    for transfer in ("a", "b"):
        store.add_chunk(transfer, content_digest(b"xy"), 0, 2, b"x")
    for transfer in ("a", "b"):
        store.add_chunk(transfer, content_digest(b"xy"), 1, 2, b"y")
    assert store.bytes == 2
    store.close()


@pytest.fixture
def agent(monkeypatch):
    pytest.importorskip("distributed")
    from autotune.fleet.agent import Agent

    monkeypatch.setattr(executors, "LocalDeviceProcess", doubles.LocalDeviceProcess)
    monkeypatch.setattr(executors, "BuildPool", doubles.Pool)
    made = Agent("mine", ["cpu"], 1)
    yield made
    made.close()


def asked(agent, ask) -> Answer:
    return answer_of(agent.answer(ask_to_plain(ask)).result(10))


def test_every_question_is_answered_whatever_goes_wrong(agent, monkeypatch):
    def mad(*_):
        raise ZeroDivisionError("by an odd shape")

    monkeypatch.setattr("autotune.fleet.agent.random_inputs", mad)
    ask = Run(SENDER, RUN, "cpu:0", "c", 3, 0.0, 0, {})
    answer = asked(agent, ask)
    assert isinstance(answer, Unable)
    assert "by an odd shape" in answer.reason
    assert not agent._store._held
    strange = replace(RUN, artifact="../../etc/passwd")
    answer = asked(agent, replace(ask, job=strange))
    assert "is no hash" in answer.reason


# ---- strangers


def listener(port, host):
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), 2):
        return True
    return False


WORKER = """
    import sys
    from autotune.cli.main import main

    main(["worker", "--device", "none", "--builders", "0", *sys.argv[1:]])
"""


def test_without_tls_a_worker_listens_to_its_own_host_alone(scheduler):
    with Script(WORKER, "--scheduler", scheduler) as script:
        script.stdout.readline()
        address = script.stdout.readline().split()[-1]
        port = int(address.rpartition(":")[2])
        # The second is another address of this host, as every one of its network is.
        reached = [listener(port, host) for host in ("127.0.0.1", "127.0.0.2")]
        script.terminate()
    assert address == f"tcp://127.0.0.1:{port}"
    assert reached == [True, False]


def test_without_tls_a_worker_leaves_a_scheduler_that_others_reach():
    pytest.importorskip("distributed")
    from autotune.cli.fleet import _is_closed
    from autotune.fleet.serve import _require_allowed

    def join(address):
        async def identity():
            return {"address": address}

        worker = SimpleNamespace(scheduler=SimpleNamespace(identity=identity))
        asyncio.run(_require_allowed(worker, "tcp://127.0.0.1:8786", _is_closed))

    join("tcp://127.0.0.1:8786")
    join("tls://192.0.2.1:8786")
    with pytest.raises(FleetError, match=r"listens at tcp://192\.0\.2\.1:8786 without TLS"):
        join("tcp://192.0.2.1:8786")


class WithoutIPv6(socket.socket):
    """A socket of a container whose names have addresses that it cannot use."""

    def bind(self, address):
        if self.family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        super().bind(address)


def test_a_worker_listens_on_localhost_where_its_second_address_cannot_be_used(monkeypatch):
    serve = pytest.importorskip("autotune.fleet.serve")
    both = [
        (family, socket.SOCK_STREAM, 6, "", (address, 0))
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: both)
    monkeypatch.setattr(socket, "socket", WithoutIPv6)
    serve._require_port("localhost", 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tcp://127.0.0.1:1", "--host", "192.0.2.1"], "others could reach this worker there"),
        (["tls://127.0.0.1:1"], "TLS without certificates"),
        (["tcp://127.0.0.1:1", "--device", "gpu"], "'gpu': expected one of cpu"),
        (
            ["tcp://127.0.0.1:1", "--port", "BUSY"],
            "cannot listen on port BUSY of 127.0.0.1: Address already in use; choose another",
        ),
        (
            ["tls://127.0.0.1:1", "--tls-ca-file", "/a", "--tls-cert", "/b", "--tls-key", "/c"],
            "there is no file /a",
        ),
    ],
)
def test_a_worker_that_could_not_be_safe_ends_in_words(words, said):
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        words = [port if word == "BUSY" else word for word in words]
        device = [] if "--device" in words else ["--device", "none"]
        command = ["worker", *device, "--builders", "0", "--scheduler", *words]
        ended = CliRunner().invoke(main, command)
    assert ended.exit_code == 1
    assert said.replace("BUSY", port) in ended.output


def test_the_status_of_a_fleet_with_tls_needs_certificates():
    pytest.importorskip("distributed")
    ended = CliRunner().invoke(main, ["fleet", "status", "--scheduler", "tls://127.0.0.1:1"])
    assert ended.exit_code == 1
    assert "Error: TLS without certificates: give --tls-ca-file" in ended.output


def test_certificates_make_an_address_one_of_tls():
    assert _encrypted("head:8786", "ca.pem") == "tls://head:8786"
    for address, ca in (("head:8786", None), ("tcp://head:1", "ca.pem"), ("tls://head:1", None)):
        assert _encrypted(address, ca) == address
