"""The command line: what it prints, and that it starts fast and fails plainly."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import autotune.cli.devices as cli_devices
from autotune.cli.main import COMMANDS, main
from autotune.record import load_from_file, write_log
from autotune.target import CudaDevice, Target
from tests.record.records import failed, good, make_config, make_input


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "x.log"
    a, b = make_config(0, k=1), make_config(1, k=2)
    write_log(
        path,
        [
            (make_input("gemm", (64, 64), "llvm", a), good(2e-6)),
            (make_input("gemm", (64, 64), "llvm", b), good(1e-6)),
            (make_input("gemm", (64, 64), "llvm", a), failed(3, "cc: no such flag\nmore")),
            (make_input("conv", (1,), "llvm", a), failed(6, "10 s")),
        ],
    )
    return path


def run(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def test_a_log_is_summarised_with_its_failures(log):
    with log.open("a") as file:
        file.write("garbage\n")
    done = run("log", "show", log)
    assert done.exit_code == 0
    assert f"{log}: 4 trials of 2 workloads" in done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith(" gemm (64, 64)")]
    assert line.split()[3:] == ["llvm", "-keys=cpu", "3", "2", "1.000", "-"]
    assert "1 failed: COMPILE_DEVICE cc: no such flag\n" in done.output
    assert "1 failed: BUILD_TIMEOUT 10 s" in done.output
    assert "1 of 5 records could not be read" in done.output
    only = run("log", "show", log, "--task", "conv").output
    assert "1 trial of 1 workload\n" in only
    assert only.splitlines()[4].split()[-3:] == ["0", "-", "-"]


@pytest.mark.parametrize(
    "command",
    ["export --out x", "lock write", "log best", "report", "serve"],
)
def test_a_command_that_is_given_templates_and_no_log_says_so(command, tmp_path):
    path = tmp_path / "templates.py"
    path.write_text("")
    done = run(*command.split(), path)
    assert (done.exit_code, "there is no LOG among the arguments" in done.output) == (2, True)


def test_logs_are_picked_split_and_compacted(log, tmp_path):
    best = tmp_path / "best.log"
    assert run("log", "pick", log, best).output == f"1 best record in {best}\n"
    assert run("log", "split", log).output.splitlines() == [f"{log}.000.wkl", f"{log}.001.wkl"]
    out = tmp_path / "out.log"
    assert run("log", "compact", log, "--out", out).output == "3 records kept, 1 line dropped\n"
    assert len(list(load_from_file(out))) == 3
    assert len(list(load_from_file(log))) == 4


def test_a_mistake_is_one_message_and_no_traceback(tmp_path):
    done = run("log", "show", tmp_path / "none.log")
    assert done.exit_code == 1
    assert done.output.startswith("Error: cannot read the log")
    assert run("sing").exit_code == 2
    assert "0 is not in the range" in run("demo", "--trials", 0).output


@pytest.mark.parametrize(
    "command",
    [
        "log show",
        "log best",
        "log pareto",
        "log plot",
        "log split",
        "log pick x.log",
        "report",
        "export -o x.json",
    ],
)
@pytest.mark.parametrize("text", ["garbage\nmore\n", "garbage\n"])
def test_a_file_that_is_no_log_is_an_error(command, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "notes.txt"
    path.write_text(text)
    words = command.split()
    if "pick" in words:  # the log is its first argument
        words.insert(2, "notes.txt")
    else:
        words.append(str(path))
    done = run(*words)
    assert done.exit_code == 1
    assert "a record (line 1: not JSON" in done.output
    assert done.output.count("is it a log?") == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_log_of_one_line_that_was_cut_short_has_no_trials_yet(tmp_path):
    path = tmp_path / "x.log"
    path.write_text('{"input": ["llvm", "ge')
    done = run("log", "show", path)
    assert (done.exit_code, done.output.splitlines()[0]) == (0, f"{path}: 0 trials of 0 workloads")
    assert "its writer was interrupted" in done.output


def test_what_cannot_be_compacted_is_said_once(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("garbage\n")
    assert run("log", "compact", path).output.count("is it a log?") == 1


def test_rows_are_printed_in_one_form(log):
    done = run("log", "show", log, "--json", "--csv")
    assert done.exit_code == 2
    assert "give --json or --csv, not both" in done.output


def test_a_url_of_no_database_is_refused_whatever_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    said = run("log", "show", "http://host/x.log").output
    assert "expected a URL of sqlite or postgresql" in said
    assert "got one of http" in said


def test_the_demonstration_says_where_it_cannot_write(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    done = run("demo", "--target", "llvm", "--trials", 1, "--log", blocked / "x" / "demo.log")
    assert done.exit_code == 1
    assert f"Error: cannot make the folder {blocked / 'x'}: Not a directory" in done.output


@pytest.mark.parametrize("group", ["log", "hub", "lock", "fleet", "model"])
def test_help_of_a_group_says_all_of_what_each_subcommand_does(group):
    _, _, subcommands = run(group, "--help").output.partition("Commands:")
    assert subcommands.rstrip().endswith(".")
    assert "..." not in subcommands


def test_devices_are_printed_for_programs_too(monkeypatch):
    device = CudaDevice("H200", "sm_90", Target("cuda -arch=sm_90").limits, 2**25, 2**37)
    monkeypatch.setattr(cli_devices, "cuda_device_count", lambda: 1)
    monkeypatch.setattr(cli_devices, "cuda_device", lambda index: device)
    host, found = json.loads(run("devices", "--json").output)
    assert host["target"] == "llvm"
    assert Target(found["target"]) == Target("cuda -arch=sm_90")
    assert (found["device"], found["name"], found["bytes"]) == (0, "H200", 2**37)
    assert "cuda -arch=sm_90: device 0, H200, 128 GiB" in run("devices").output


def test_devices_are_listed_with_the_target_that_names_them():
    done = run("devices")
    assert done.exit_code == 0
    assert done.output.startswith("llvm: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    done = run(name, "--help")
    assert done.exit_code == 0
    assert COMMANDS[name][1] in " ".join(run("--help").output.split())


def test_starting_imports_no_numpy():
    code = "import sys; from autotune.cli.main import main; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("words", "meant"), [(["reprot"], "report"), (["log", "shwo"], "show"), (["xyz"], None)]
)
def test_a_slip_of_a_command_is_told_which_one_is_meant(words, meant):
    done = run(*words)
    assert done.exit_code == 2
    assert f"No such command {words[-1]!r}" in done.output
    assert ("did you mean" in done.output) == (meant is not None)
    assert f"did you mean {meant!r}?" in done.output or meant is None


def test_an_option_in_place_of_a_command_is_told():
    done = run("--", "-x")
    assert done.exit_code == 2
    assert "'-x'" in done.output
