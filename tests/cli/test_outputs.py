"""What commands write: never over what they read, nowhere by accident, and what they left out."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from tests.dashboard.rows import log, row, run


def said(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def trials(tmp_path):
    return log(tmp_path / "a.log", run(4))


@pytest.mark.parametrize(
    "command",
    ["export LOG --out LOG", "report LOG -o LOG", "log pick LOG LOG", "log plot LOG --out LOG",
     "report OTHER LOG -o LINK"],
)  # fmt: skip
def test_a_command_never_writes_over_the_log_it_reads(trials, tmp_path, command):
    svg = trials.rename(tmp_path / "a.svg")
    other = log(tmp_path / "b.log", run(2))
    link = tmp_path / "link.svg"
    link.hardlink_to(svg)
    before = svg.read_bytes()
    names = {"LOG": svg, "OTHER": other, "LINK": link}
    done = said(*(names.get(word, word) for word in command.split()))
    assert done.exit_code == 2
    assert "would be written over" in done.output
    assert svg.read_bytes() == before


@pytest.mark.parametrize("name", ["x", "x.gif", "x.svg.txt"])
def test_a_figure_is_written_under_the_name_that_is_said_or_not_at_all(trials, tmp_path, name):
    done = said("log", "plot", trials, "--out", tmp_path / name)
    assert done.exit_code == 1
    assert "ends in none of .png, .svg, .pdf" in done.output
    assert [one.name for one in tmp_path.iterdir()] == ["a.log"]


SOURCE = """
import autotune
@autotune.template("outputs.scale")
def scale(n):
    cfg = autotune.get_config()
    cfg.define_knob("u", [1, 2])
    args = [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")]
    return autotune.SourceKernel("scale", source="void scale(float *x, float *y) { /* mine */ }",
                                 defines={"U": cfg["u"].val}, args=args)
"""


def test_a_report_has_the_source_of_winners_whose_templates_it_is_given(tmp_path):
    file, out = tmp_path / "outputs_templates.py", tmp_path / "x.html"
    file.write_text(SOURCE)
    one = row(0, task="outputs.scale", target="c", knobs={"u": 1})
    one["input"][2] = [8]
    trials = log(tmp_path / "a.log", [one], "torn\n")
    done = said("report", file, trials, "-o", out)
    assert done.exit_code == 0, done.output
    assert "1 of 2 records could not be read" in done.stderr
    assert "/* mine */" in out.read_text()
    assert 'id="comparison"' not in out.read_text()
    assert said("report", file, "-o", out).exit_code == 2


def test_nothing_compared_is_no_success(tmp_path):
    empty = tmp_path / "empty.log"
    empty.write_text("")
    assert said("log", "diff", empty, empty).exit_code == 0
    done = said("log", "diff", empty, empty, "--fail-above", "5%")
    assert done.exit_code == 1
    assert "nothing to compare" in done.output


def test_an_address_that_is_none_of_this_machine_is_said(trials):
    done = said("serve", "--host", "300.1.1.1", trials)
    assert done.exit_code == 1
    assert "300.1.1.1:8765" in done.output
    assert "give another --host" in done.output


def test_a_log_that_is_not_there_yet_is_named_beside_the_link(trials, tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.dashboard.run", lambda _m, _g, _p, ready: ready("http://here/"))
    shown = said("serve", trials, tmp_path / "soon.log").output.splitlines()
    assert shown[0].endswith("soon.log: http://here/")
    assert shown[1] == f"Not there yet, and shown as soon as it is: {tmp_path / 'soon.log'}"
    assert len(said("serve", trials).output.splitlines()) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is full")
def test_where_there_is_no_room_for_what_is_printed_that_is_one_line(trials):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "autotune", "log", "show", trials],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    no_room = os.strerror(errno.ENOSPC)
    assert done.stderr == f"Error: cannot write what is printed: {no_room}\n"
    assert done.returncode == 1


def test_a_reader_who_has_enough_ends_a_command_without_a_message(tmp_path):
    many = log(tmp_path / "a.log", run(3000))
    command = [sys.executable, "-m", "autotune", "log", "compact", str(many), "-o", "/dev/stdout"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout.readline().startswith(b"{")
        writer.stdout.close()
        assert writer.stderr.read() == b""
    assert writer.returncode == 1


def test_several_workloads_are_not_written_beside_a_device(tmp_path):
    both = log(tmp_path / "a.log", [row(0), row(1, task="dense")])
    done = said("export", both, "-o", "/dev/null")
    assert done.exit_code == 1
    assert (
        "/dev/null is no file, and each of 2 workloads is written to one of its own" in done.output
    )


def test_an_empty_name_is_no_log():
    done = said("log", "show", "")
    assert done.exit_code == 2
    assert "expected the path of a log, got an empty text" in done.output
