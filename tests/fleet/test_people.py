"""A fleet as people meet it: commands, certificates, Dask's own workers, the live page."""

import json
import socket
import subprocess
import sys
import textwrap
import time

import pytest
from click.testing import CliRunner

from autotune.cli.fleet import is_loopback
from autotune.cli.main import main
from autotune.errors import FleetError
from autotune.fleet import Fleet
from autotune.tuner import GridSearchTuner
from autotune.tuner.callback import log_to_file
from autotune.tuner.display.page import LivePage
from tests.dashboard.serving import Socket
from tests.fleet.test_chaos import FAST
from tests.fleet.test_faults import measured, task_of, troop  # noqa: F401 - a fixture
from tests.fleet.workers import started_scheduler
from tests.forked import ROOT, Script


def test_between_hosts_a_worker_asks_for_tls():
    ended = CliRunner().invoke(main, ["worker", "--scheduler", "tcp://192.0.2.1:8786"])
    assert ended.exit_code == 1
    assert "is on another host and not encrypted" in ended.output


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("tcp://127.0.0.1:8786", True), ("localhost:8786", True), ("tcp://[::1]:8786", True),
        ("tcp://192.0.2.1:8786", False), ("tcp://head:8786", False), ("tcp://0.0.0.0:1", False),
    ],
)  # fmt: skip
def test_only_loopback_is_this_host(address, here):
    assert is_loopback(address) == here


def test_a_worker_that_no_scheduler_answers_says_so_and_can_be_ended():
    command = [sys.executable, "-m", "autotune", "worker", "--device", "none", "--builders", "1"]
    with socket.socket() as unused:  # bound, and it listens not: whoever connects is refused
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        worker = subprocess.Popen(
            [*command, "--scheduler", address], stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        with worker:
            said = next(line for line in worker.stderr if "no scheduler answers" in line)
            worker.terminate()
    assert f"at {address} so far (" in said
    assert worker.returncode == 0


# As the documentation has it, but with keys that are made more quickly.
KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
CERTIFICATES = """
openssl req -x509 {key} -days 1 -subj /CN=authority -keyout {0}.key -out {0}.pem
openssl req {key} -subj /CN=fleet -keyout {0}-fleet.key -out {0}.csr
openssl x509 -req -in {0}.csr -CA {0}.pem -CAkey {0}.key -CAcreateserial -days 1 -out {0}-fleet.pem
"""


@pytest.fixture
def certificates(tmp_path):
    """Files of TLS of a fleet, and of somebody whom its authority does not know."""
    for name in ("ours", "theirs"):
        for line in CERTIFICATES.format(name, key=KEY).strip().splitlines():
            subprocess.run(line.split(), cwd=tmp_path, check=True, capture_output=True)

    def files(authority, owner):
        made = f"{authority}.pem", f"{owner}-fleet.pem", f"{owner}-fleet.key"
        return [str(tmp_path / one) for one in made]

    return files


WORKER = """
    import sys
    from autotune.cli.main import main

    main(["worker", "--name", "mine", "--builders", "1", *sys.argv[1:]])
"""
STATUS = ("worker", "host", "place", "device", "arch", "driver", "toolkit", "queue", "done")


def options(scheduler, files):
    names = ("--tls-ca-file", "--tls-cert", "--tls-key")
    return [
        "--scheduler",
        scheduler,
        *(word for pair in zip(names, files, strict=True) for word in pair),
    ]


def test_a_worker_of_the_command_line_joins_by_its_certificate_and_leaves_at_a_signal(
    scheduler, certificates
):
    ours = certificates("ours", "ours")
    with started_scheduler(0, ours) as address:
        assert address.startswith("tls://")
        with Script(WORKER, *options(address, ours)) as script:
            assert script.stdout.readline().startswith("mine: cpu:0")
            assert "joined" in script.stdout.readline()
            ask = ["fleet", "status", *options(address, ours)]
            shown = CliRunner().invoke(main, ask)
            assert shown.exit_code == 0, shown.output
            assert all(head in shown.output for head in (*STATUS, "mine", "cpu:0"))
            rows = json.loads(CliRunner().invoke(main, [*ask, "--json"]).output)
            assert {row["place"] for row in rows} == {"builders", "cpu:0"}
            script.terminate()
            assert script.wait(20) == 0
        alone, for_programs = (
            CliRunner().invoke(main, [*ask, *more]) for more in ([], ["--json"])
        )
        assert "no worker at" in alone.output
        assert json.loads(for_programs.output) == []
        assert alone.exit_code == for_programs.exit_code == 1
        for strange in (certificates("ours", "theirs"), certificates("theirs", "theirs")):
            refused = CliRunner().invoke(main, ["fleet", "status", *options(address, strange)])
            assert refused.exit_code == 1
            assert "no scheduler answers at tls://" in refused.output
        with pytest.raises(FleetError, match="TLS without certificates"):
            Fleet(address, timeout_s=2)


def test_a_worker_with_the_certificate_of_another_fleet_says_that_it_is_not_known(certificates):
    command = [sys.executable, "-m", "autotune", "worker", "--device", "none", "--builders", "1"]
    with started_scheduler(0, certificates("ours", "ours")) as address:
        command += options(address, certificates("theirs", "theirs"))
        worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        with worker:
            said = next(line for line in worker.stderr if "no scheduler answers" in line)
            worker.terminate()
    assert "certificate verify failed" in said


@pytest.mark.parametrize("how", ["SIG_DFL", "SIG_IGN"])
def test_a_worker_leaves_when_its_terminal_does_unless_nohup_started_it(scheduler, how):
    started = f"    import signal\n    signal.signal(signal.SIGHUP, signal.{how})\n{WORKER}"
    with Script(started, "--scheduler", scheduler) as script:
        script.stdout.readline()
        assert "joined" in script.stdout.readline()
        script.hang_up()
        if how == "SIG_IGN":
            assert script.wait(2) is None
            script.terminate()
        assert script.wait(20) == 0


CLUSTER = """
    import json
    from distributed import Client, LocalCluster
    from autotune.fleet import Fleet
    from autotune.fleet.link import Link
    from autotune.fleet.serve import AgentPlugin

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        with Fleet(cluster, install=False) as fleet:
            told = [fleet.status()]
        for where in (cluster, client):
            with Fleet(where) as fleet:
                fleet.wait(2)
                told.append(fleet.status())
        Link(client).install(AgentPlugin())
        agents = [client.run(lambda dask_worker: dask_worker.metrics["autotune_fleet"](None))]
        Link(client).install(AgentPlugin())
        agents += [client.run(lambda dask_worker: dask_worker.metrics["autotune_fleet"](None))]
    print(json.dumps([agents, *told]), flush=True)
"""


def test_workers_of_dask_are_given_agents_unless_nobody_wants_it(scheduler):
    with Script(CLUSTER) as script:
        (first, again), before, *after = json.loads(script.stdout.readline())
    assert first == again
    assert len(set(first.values())) == 2
    assert ["it has no agent" in row["aside"] for row in before] == [True, True]
    for rows in after:
        assert sorted(row["place"] for row in rows) == ["builders"] * 2 + ["cpu:0"] * 2
        assert not any(row["aside"] for row in rows)


def workers_of(link):
    reader = Socket(link)
    told = reader.receive()
    reader.close()
    return told["workers"]


def test_the_live_page_shows_who_measures(troop, scheduler, tmp_path, caplog):  # noqa: F811
    troop("left")
    troop("right")
    page = LivePage(tmp_path / "a.log")
    with Fleet(scheduler, run=FAST) as fleet:
        fleet.wait(2)
        GridSearchTuner(task_of("page")).tune(
            20, fleet, callbacks=[log_to_file(tmp_path / "a.log"), page], finalists=0
        )
    deadline = time.monotonic() + 30
    while not (page.link and (rows := workers_of(page.link))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    page.close()
    devices = [row for row in rows if row["place"] == "cpu:0"]
    assert sorted(row["worker"] for row in devices) == ["left", "right"]
    assert sum(row["done"] for row in devices) >= 14
    assert any(row["clock"] == 1 for row in devices)
    # What waits for another of its own program waits for no other program.
    assert "the device was shared" not in caplog.text


LEAVES = """
    import os, sys, time
    from autotune.fleet.link import Link

    def on_cores_s(pid):
        # How long it ran, and waited for a core, which others want.
        try:
            with open(f"/proc/{pid}/schedstat") as file:
                return sum(map(int, file.read().split()[:2])) / 1e9
        except OSError:
            return 0.0

    link, begun, before_s = Link(sys.argv[1], timeout_s=50), time.monotonic(), on_cores_s("self")
    pid = os.fork()
    if pid == 0:
        sys.exit()
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    took_s, busy_s = time.monotonic() - begun, on_cores_s(pid) + on_cores_s("self") - before_s
    os.wait()
    assert took_s - busy_s < 6, "the fork waited for threads of its parent"
    link.close()
"""


def test_a_fork_of_a_process_with_a_fleet_ends_at_once(scheduler):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(LEAVES)]
    subprocess.run([*command, scheduler], check=True, timeout=60, cwd=ROOT)
