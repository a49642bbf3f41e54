"""The command as a user runs it: in a folder with scripts and logs of the user's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import autotune
from tests.forked import Script, forkserver_with

ROOT = Path(__file__).parents[2]
# A console script has the folder of the interpreter on its path, not the one it is called in.
CONSOLE = "import sys; sys.path.remove(''); from autotune.cli.main import main; main()"
TEMPLATE = """
import autotune
from widths import WIDTHS

@autotune.template("user_files.double")
def double(n):
    cfg = autotune.get_config()
    cfg.define_knob("unroll", WIDTHS)
    return autotune.SourceKernel(
        "twice",
        source="void twice(const float* a, float* b) {"
        " for (int i = 0; i < N; ++i) b[i] = 2 * a[i]; }",
        defines={"N": n, "UNROLL": cfg["unroll"].val},
        args=[autotune.arg("a", (n,)), autotune.arg("b", (n,), role="out")],
        reference=lambda a: 2 * a,
    )

if __name__ == "__main__":
    task = autotune.create(double, (640,), "llvm")
    runner = autotune.LocalRunner(number=1, cooldown_interval=0)
    option = autotune.measure_option(autotune.LocalBuilder(n_parallel=1), runner)
    keep = autotune.callback.log_to_file("double.log")
    autotune.tuner.GridSearchTuner(task).tune(2, option, callbacks=[keep], finalists=0)
"""


def run(*command, cwd):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


# What `python -m autotune` does, once its interpreter has started.
AS_MODULE = """
import os, runpy, sys
os.chdir(sys.argv[1])
sys.path.insert(0, sys.argv[1])
os.dup2(1, 2)
sys.stderr = sys.stdout
sys.argv = ["autotune", *sys.argv[2:]]
runpy.run_module("autotune", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def command(project):
    """Runs the command in the folder; returns its status and all that it printed."""

    def run_command(*arguments):
        with Script(AS_MODULE, project, *arguments) as process:
            printed = process.stdout.read()
        return process.poll(), printed

    with forkserver_with(["autotune.cli.main"]):
        yield run_command


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a script that tuned, the module it imports, and its log."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "kernels.py").write_text(TEMPLATE)
    (folder / "widths.py").write_text("WIDTHS = [1, 2]\n")
    done = run("kernels.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


VERIFIES = {
    "a file": ("kernels.py", "double.log"),
    "a module of the folder": ("--module", "kernels", "double.log"),
    "a file behind the log": ("double.log", "kernels.py"),
    "a file and the shipped modules": (
        "--module", "autotune.templates", "kernels.py", "double.log",
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("how", VERIFIES)
def test_verify_finds_the_templates_of_the_working_directory(project, how):
    done = run("-c", CONSOLE, "verify", *VERIFIES[how], cwd=project)
    assert "answer checked" in done.stdout, done.stdout + done.stderr
    assert "1 records hold" in done.stdout or "of 1 records" in done.stdout


def test_verify_finds_a_file_elsewhere_and_what_it_imports(project, tmp_path):
    log = project / "double.log"
    done = run("-c", CONSOLE, "verify", project / "kernels.py", log, cwd=tmp_path)
    assert "answer checked" in done.stdout, done.stdout + done.stderr


BROKEN = {
    "syntax": ("def f(:\n", "SyntaxError: "),
    "at run time": ("1 / 0\n", "ZeroDivisionError: division by zero"),
    "a missing module": ("import no_such_module_here\n", "No module named 'no_such_module_here'"),
    "an exit": (
        "import sys\nsys.exit(0)\n",
        "exits when it is imported, by sys.exit(0); put what",
    ),
    "a template without a name": ("import autotune\nautotune.template(5)\n", "got 5"),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_cannot_be_imported_is_one_message(command, project, what):
    text, message = BROKEN[what]
    (project / "broken.py").write_text(text)
    status, printed = command("verify", "broken.py", "double.log")
    assert status == 1
    assert "Error: broken.py: " in printed
    assert message in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("words", [["verify"], ["lock", "write"], ["log", "best"]])
def test_a_template_that_is_not_found_is_one_line_that_says_where_templates_come_from(
    command, words
):
    _, printed = command(*words, "double.log")
    said = [line for line in printed.splitlines() if "no template" in line]
    assert len(said) == 1, printed
    assert (
        "no template is registered for task 'user_files.double'; import the module that defines "
        "it (a command takes its FILE.py, or --module NAME)"
    ) in said[0]


def test_a_file_named_like_a_loaded_module_is_refused(project):
    (project / "json.py").write_text("")
    done = run("-P" if sys.version_info >= (3, 11) else "-I", "-c", CONSOLE.replace(
        "sys.path.remove(''); ", f"sys.path.append({str(ROOT)!r}); "
    ), "verify", "json.py", "double.log", cwd=project)  # fmt: skip
    (project / "json.py").unlink()
    assert "a module called 'json' is loaded already; rename the file" in done.stderr


def test_the_package_runs_as_a_module(tmp_path):
    done = run("-m", "autotune", "--version", cwd=tmp_path)
    assert done.stdout == f"autotune, version {autotune.__version__}\n"
    assert "Usage: python -m autotune" in run("-m", "autotune", "--help", cwd=tmp_path).stdout
