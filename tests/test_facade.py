"""What a user sees of the package is exactly what was meant to be seen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import autotune


def test_every_public_name_loads():
    for name in autotune.__all__:
        assert getattr(autotune, name) is not None


def test_the_public_names_are_listed_once():
    assert len(autotune.__all__) == len(set(autotune.__all__))


def test_every_home_is_public_and_every_public_name_has_a_home():
    assert set(autotune._HOMES) == set(autotune.__all__) - {"__version__"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Tpyo'"):
        _ = autotune.Tpyo


@pytest.mark.parametrize("heavy", ["numpy", "xgboost", "scipy", "autotune.templates"])
def test_importing_the_package_loads_nothing_heavy(heavy):
    code = f"import autotune, sys; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("heavy", ["scipy", "xgboost"])
def test_importing_the_auto_scheduler_loads_no_library_of_models(heavy):
    code = f"import autotune.auto_scheduler, sys; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_template_library_is_found_in_a_checkout_that_nobody_installed(tmp_path):
    for name in ("autotune", "templates"):
        (tmp_path / name).symlink_to(Path(__file__).parents[1] / name)
    code = (
        "import autotune.templates, autotune.templates.source as source\n"
        "print(autotune.__file__, source.__file__)"
    )
    places = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    # Without `site`, which runs what installations put in its way.
    command = [sys.executable, "-S", "-c", code]
    run = subprocess.run(command, cwd=tmp_path, env=places, capture_output=True)
    assert run.stdout.decode().split() == [
        f"{tmp_path}/autotune/__init__.py", f"{tmp_path}/templates/source.py",
    ], run.stderr  # fmt: skip
