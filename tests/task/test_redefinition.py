"""Running a definition again: replaces a template at a prompt, and is a mistake in a script."""

import subprocess
import sys

import pytest

TEMPLATE = """
import autotune
@autotune.template("again.{name}")
def {function}(n):
    autotune.get_config().define_knob("k", list(range({values})))
"""
HALVES = """
import autotune
from autotune import te
@autotune.register_topi_compute("again.halves")
def compute(cfg, n):
    a = te.placeholder((n,), name="a")
    return te.compute((n,), lambda i: a[i] + {values})
@autotune.register_topi_schedule("again.halves")
def schedule(cfg, outs):
    cfg.define_knob("k", list(range({values})))
    return te.create_schedule(outs[0].op)
"""
COUNT = "print(len(autotune.create('{task}', (8,), 'c').config_space))"


def python(code, *options, stdin=True, path=None):
    if path is not None:
        path.write_text(code)
    command = [sys.executable, *options, *([] if stdin else [str(path)])]
    return subprocess.run(
        command, input=code if stdin else None, capture_output=True, text=True, timeout=60
    )


def twice(template, task, **other):
    first = template.format(name="one", function="f", values=2)
    second = template.format(**{"name": "one", "function": "f", "values": 3, **other})
    return f"{first}\n{second}\n{COUNT.format(task=task)}\n"


@pytest.mark.parametrize(
    "code",
    [
        twice(TEMPLATE, "again.one"),
        twice(TEMPLATE, "again.one", function="g"),
        twice(HALVES, "again.halves"),
    ],
    ids=["the same function", "another function", "two halves"],
)
def test_a_cell_run_again_replaces_its_template(code):
    cells = f"exec({code!r}, {{'__name__': '__main__'}})"
    done = python(cells, "-")
    assert done.stdout == "3\n", done.stderr


def test_a_script_at_a_prompt_replaces_its_template(tmp_path):
    # IPython's %run, `python -i`
    code = "import sys; sys.ps1 = '>>> '\n" + twice(TEMPLATE, "again.one")
    done = python(code, stdin=False, path=tmp_path / "script.py")
    assert done.stdout == "3\n", done.stderr


@pytest.mark.parametrize("function", ["f", "g"])
def test_two_templates_of_one_name_in_a_script_are_a_mistake(tmp_path, function):
    code = twice(TEMPLATE, "again.one", function=function)
    done = python(code, stdin=False, path=tmp_path / "script.py")
    assert done.returncode == 1
    assert (
        "TemplateError: Customized func is already registered for task 'again.one'" in done.stderr
    )


def test_a_cell_cannot_replace_a_template_of_a_module():
    code = """
import autotune, autotune.templates
name = autotune.templates.source.gemm_nn_cpu.task_name
autotune.template(name, lambda m: None)
"""
    done = python(code, "-")
    assert "TemplateError: Customized func is already registered" in done.stderr
