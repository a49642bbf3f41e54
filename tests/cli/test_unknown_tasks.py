"""A name of a task that is misspelled: each command that takes one names the tasks of the log."""

import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from autotune.record.writer import LogWriter
from tests.cli.log_commands import GEMM, pair
from tests.record.records import good

COMMANDS = {
    "verify": ["verify", "LOG"],
    "show": ["log", "show", "LOG"],
    "best": ["log", "best", "LOG"],
    "show as JSON": ["log", "show", "LOG", "--json"],
    "pareto": ["log", "pareto", "LOG"],
    "diff": ["log", "diff", "LOG", "LOG"],
    "plot": ["log", "plot", "LOG", "-o", "x.svg"],
    "lock": ["lock", "write", "LOG", "-o", "x.lock"],
    "export": ["export", "LOG", "-o", "x.json"],
    "export to C": ["export", "LOG", "--to", "c", "-o", "x"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_misspelled_task_is_corrected(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "x.log"
    LogWriter(log).extend([pair(GEMM, 0, good(1.0), k=0)])
    args = [str(log) if one == "LOG" else one for one in COMMANDS[command]]
    done = CliRunner().invoke(main, [*args, "--task", "gemmm"])
    assert "no trial is of task 'gemmm'; did you mean 'gemm'?" in done.output
    assert done.exit_code == 1


def test_verify_names_its_own_option_to_keep_older_records(tmp_path, caplog):
    (tmp_path / "tests_older_file.py").write_text(KERNEL)
    log = tmp_path / "x.log"
    of_task = ("tests.older", (8,), "c")
    LogWriter(log).extend([pair(of_task, 0, good(1.0, kernel_hash="0" * 16), step=1)])
    done = CliRunner().invoke(main, ["verify", str(tmp_path / "tests_older_file.py"), str(log)])
    assert done.exit_code == 1
    assert "of an older kernel text, ignored; --keep-older keeps such" in caplog.text
    caplog.clear()
    CliRunner().invoke(main, ["lock", "write", str(log), "-o", str(tmp_path / "x.lock")])
    assert caplog.messages[0].endswith("of an older kernel text, ignored")


KERNEL = """
import autotune

@autotune.template("tests.older")
def copy(n):
    autotune.get_config().define_knob("step", [1, 2])
    text = "void copy(const float* x, float* y) { for (int i = 0; i < 8; ++i) y[i] = x[i]; }"
    args = [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")]
    return autotune.SourceKernel("copy", source=text, args=args)
"""
