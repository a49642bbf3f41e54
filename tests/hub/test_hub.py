"""Packs of tuned records: the one that ships, and those of a folder or a URL."""

import dataclasses
import functools
import hashlib
import http.server
import json
import logging
import threading

import autotune.templates
import pytest
from click.testing import CliRunner

import autotune
from autotune import hub
from autotune.cli.main import main
from autotune.errors import RecordError
from autotune.record import load_from_file, write_log
from autotune.record.outdated import current_only
from autotune.task import FallbackContext, Task
from tests.record.records import good

ABOUT = {"device": "a device", "date": "2026-01-02", "command": "tune"}


@autotune.template("tests.hub.scale")
def scale(n):
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 2, 4])
    return autotune.SourceKernel(
        "scale",
        f'extern "C" __global__ void scale(float *x) {{ /* {cfg["step"].val} */ }}',
        [autotune.arg("x", (n,), role="inout")],
    )


def raced(n, step, target="cuda", seconds=1e-6, default=2e-6):
    task = autotune.create("tests.hub.scale", args=(n,), target=target)
    config = task.config_space.get([1, 2, 4].index(step))
    inp = autotune.MeasureInput(task.target, Task("tests.hub.scale", (n,), task.target), config)
    ran = [{"index": config.index, "seconds": seconds}, {"index": 9, "seconds": default}]
    return inp, good(seconds, race={"candidates": ran, "default": 9})


@pytest.fixture
def folder(tmp_path):
    pairs = [raced(8, 4), raced(8, 2, seconds=5e-6, default=9e-6), raced(16, 2)]
    hub.make_pack(pairs, tmp_path, "small", arch="sm_90", **ABOUT)
    return tmp_path


def step_of(n, target="cuda -arch=sm_90"):
    with autotune.Target(target):
        return scale(n).kernel("cuda").source.split("/* ")[1][0]


def test_a_pack_answers_for_its_own_architecture_only(folder):
    with hub.PackContext(folder):
        assert [step_of(8), step_of(16)] == ["4", "2"]
        assert step_of(8, "cuda -arch=sm_80") == "1"
        assert step_of(8, "cuda -emulate -arch=sm_90") == "1"
        assert step_of(32) == "1"


def test_what_a_program_gives_comes_before_a_pack(folder, tmp_path):
    log = tmp_path / "own.log"
    write_log(log, [raced(8, 2, target="cuda -arch=sm_90")])
    with hub.PackContext(folder), autotune.apply_history_best(log):
        assert step_of(8) == "2"
        assert step_of(16) == "2"  # the log has nothing: the pack is asked
    with hub.PackContext(folder), FallbackContext():
        assert step_of(8) == "1"


def test_a_pack_that_is_provided_answers_in_the_whole_process(folder, monkeypatch):
    monkeypatch.setattr("autotune.task.dispatcher._provided", [])
    hub.provide(folder)
    assert step_of(8) == "4"
    with FallbackContext():
        assert step_of(8) == "1"


def test_a_log_that_is_not_what_its_index_says_is_not_used(folder, caplog):
    (pack,) = hub.packs(folder)
    text = (folder / pack.file).read_text()
    (folder / pack.file).write_text(text.replace('"step", "ot", 4', '"step", "ot", 1'))
    with pytest.raises(RecordError, match="its index says"):
        hub.log_of(pack)
    with caplog.at_level(logging.WARNING), hub.PackContext(folder):
        assert step_of(8) == "1"
    assert "the pack is not used" in caplog.text


def test_a_pack_of_records_whose_answers_nobody_checked_says_so(tmp_path, caplog):
    inp, result = raced(8, 4)
    evidence = dataclasses.replace(result.evidence, verified=True)
    checked = inp, result._replace(evidence=evidence)
    hub.make_pack([checked], tmp_path, "x", arch="sm_90", **ABOUT)
    assert not caplog.records
    hub.make_pack([checked, raced(16, 2)], tmp_path, "x", arch="sm_90", **ABOUT)
    said = "answers of 1 of 2 records in x.log were not compared with a reference"
    assert said in caplog.text


def test_only_winners_of_races_that_beat_the_default_are_packed(tmp_path):
    plain = raced(8, 4)[0], good(1e-6)
    slower = raced(16, 4, seconds=3e-6, default=2e-6)
    pack = hub.make_pack([plain, slower, raced(32, 2)], tmp_path, "x", arch="sm_90", **ABOUT)
    ((inp, _),) = load_from_file(hub.log_of(pack), races=True)
    assert inp.task.args == (32,)
    assert pack.records == 1
    with pytest.raises(RecordError, match=r"of sm_90 that won a final race .* got none"):
        hub.make_pack([plain], tmp_path, "x", arch="sm_90", **ABOUT)
    other = [raced(8, 4, target="cuda -arch=sm_80")]
    with pytest.raises(RecordError, match="expected records of sm_90, got those of cuda sm_80"):
        hub.make_pack(other, tmp_path, "x", arch="sm_90", **ABOUT)


def test_records_of_a_cpu_are_no_pack_of_a_gpu(tmp_path):
    on_cpu = [raced(8, 4, target="llvm")]
    with pytest.raises(RecordError, match=r"sm_90 is an architecture of CUDA .* records of llvm"):
        hub.make_pack(on_cpu, tmp_path, "x", arch="sm_90", **ABOUT)
    assert hub.make_pack(on_cpu, tmp_path, "x", arch="x86_64", **ABOUT).records == 1


def test_a_pack_holds_only_what_gains_as_much_as_is_asked_for(tmp_path):
    little, much = raced(8, 4, seconds=1e-6, default=1.02e-6), raced(16, 2, default=1.04e-6)
    pack = hub.make_pack([little, much], tmp_path, "x", arch="sm_90", least_gain=1.03, **ABOUT)
    ((inp, _),) = load_from_file(hub.log_of(pack), races=True)
    assert inp.task.args == (16,)
    assert hub.make_pack([little, much], tmp_path, "x", arch="sm_90", **ABOUT).records == 2


def test_a_faster_trial_outside_of_the_race_does_not_put_its_winner_out(tmp_path):
    winner, trial = raced(8, 4), (raced(8, 2)[0], good(0.5e-6))
    pack = hub.make_pack([trial, winner, trial], tmp_path, "x", arch="sm_90", **ABOUT)
    ((inp, result),) = load_from_file(hub.log_of(pack), races=True)
    assert inp.config["step"].val == 4
    assert result.seconds == 1e-6


def test_a_folder_holds_many_packs_and_a_new_one_replaces_that_of_its_name(folder):
    hub.make_pack([raced(8, 1, "cuda -arch=sm_80")], folder, "other", arch="sm_80", **ABOUT)
    hub.make_pack([raced(8, 2)], folder, "small", arch="sm_90", **ABOUT)
    assert [each.file for each in hub.packs(folder)] == ["other.log", "small.log"]
    with hub.PackContext(folder):
        assert step_of(8) == "2"


@pytest.fixture
def served(folder):
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked = []  # noqa: RUF012

    def log_message(self, *args):
        self.asked.append(self.path)


def test_a_pack_behind_a_url_is_fetched_once_and_checked(served, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    index = hashlib.sha256((folder / hub.INDEX).read_bytes()).hexdigest()
    for url in (served, f"{served}packs.json", f"{served}#sha256={index}"):
        (pack,) = hub.packs(url)
        assert hub.log_of(pack).read_bytes() == (folder / "small.log").read_bytes()
    assert Quiet.asked.count("/small.log") == 1
    with hub.PackContext(served):
        assert step_of(8) == "4"
    with pytest.raises(RecordError, match=r"has the hash .*, expected 00"):
        hub.packs(f"{served}#sha256=00")
    (folder / "small.log").write_text("changed")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(RecordError, match="its index says"):
        hub.log_of(pack)
    with pytest.raises(RecordError, match=r"cannot fetch .*nowhere"):
        hub.packs(f"{served}nowhere/")


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.update(version=9),
        lambda index: index["packs"][0].update(file="../../etc/passwd"),
        lambda index: index["packs"][0].update(sha256="../../x"),
        lambda index: index["packs"][0].update(tasks="all"),
        lambda index: index["packs"][0].pop("arch"),
        lambda index: index.update(packs=3),
    ],
)
def test_an_index_that_is_none_is_refused(folder, change):
    index = json.loads((folder / hub.INDEX).read_text())
    change(index)
    (folder / hub.INDEX).write_text(json.dumps(index))
    with pytest.raises(RecordError, match="is no index of packs"):
        hub.packs(folder)


def test_the_pack_that_ships_is_whole_and_of_the_kernels_that_templates_make_now(caplog):
    (pack,) = hub.packs(autotune.templates.TUNED)
    pairs = list(load_from_file(hub.log_of(pack), races=True))
    assert len(pairs) == pack.records >= 10
    with caplog.at_level(logging.WARNING):
        current = list(current_only(pairs, "the pack"))
    assert len(current) == len(pairs), f"{caplog.text}: autotune hub trim templates/tuned"
    assert (pack.device, pack.arch) == ("NVIDIA H200", "sm_90")


def test_the_pack_that_ships_is_found_without_being_asked_for(caplog):
    (pack,) = hub.packs(autotune.templates.TUNED)
    pairs = load_from_file(hub.log_of(pack), races=True)
    args = next(inp.task.args for inp, _ in pairs if inp.task.name == "conv2d_nchw.cuda")
    with autotune.Target("cuda -arch=sm_90"), caplog.at_level(logging.WARNING):
        tuned = autotune.templates.source.conv2d_nchw_cuda(*args)
        with FallbackContext():
            plain = autotune.templates.source.conv2d_nchw_cuda(*args)
    assert tuned.kernel("cuda").source != plain.kernel("cuda").source
    assert caplog.text.count("Cannot find config") == 1  # of the second


def test_the_commands_list_fetch_and_make_packs(folder, tmp_path):
    def run(*words):
        done = CliRunner().invoke(main, ["hub", *map(str, words)])
        assert done.exit_code == 0, done.output
        return done.output

    assert "NVIDIA H200" in run("list")
    assert run("pull", folder) == f"{folder / 'small.log'}\n"
    log = tmp_path / "all.log"
    write_log(log, [raced(8, 4)])
    made = ["--name", "b", "--arch", "sm_90", "--device", "d", "--date", "2026-11-20"]
    made += ["--command", "c"]
    assert run("pack", log, "-o", tmp_path / "out", *made).startswith("1 record in")
    assert "b.log" in run("list", tmp_path / "out")


@pytest.mark.parametrize("date", ["x", "2026-13-77", "20261120", "2026-11-2"])
def test_a_pack_needs_a_date_of_the_calendar(tmp_path, date):
    with pytest.raises(RecordError, match=f"expected a date as YYYY-MM-DD, got '{date}'"):
        hub.make_pack([raced(8, 4)], tmp_path, "a", arch="sm_90", **{**ABOUT, "date": date})


def test_a_folder_of_packs_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match=r"hub: cannot write .*file.packs.a\.log: "):
        hub.make_pack([raced(8, 4)], tmp_path / "file" / "packs", "a", arch="sm_90", **ABOUT)


def test_records_of_older_kernels_are_taken_out_of_packs(tmp_path, monkeypatch):
    log, folder = tmp_path / "all.log", tmp_path / "packs"
    write_log(log, [raced(8, 4), raced(16, 2)])
    older = [json.loads(line) for line in log.read_text().splitlines()]
    older[0]["kernel_hash"] = "0" * 16
    log.write_text("".join(f"{json.dumps(row)}\n" for row in older))
    hub.make_pack(load_from_file(log), folder, "a", arch="sm_90", **ABOUT)
    hub.make_pack([raced(32, 2)], folder, "b", arch="sm_90", **ABOUT)
    done = CliRunner().invoke(main, ["hub", "trim", str(folder)])
    assert done.output.endswith(f"1 of 2 records stay in {folder / 'a.log'}\n")
    assert [(each.records, each.date) for each in hub.packs(folder)] == [(1, "2026-01-02")] * 2
    ((inp, _),) = load_from_file(folder / "a.log", races=True)
    assert inp.task.args == (16,)
