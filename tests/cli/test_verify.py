import json

import autotune.templates
import pytest
from click.testing import CliRunner

import autotune
from autotune.cli.main import main
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.tuner import GridSearchTuner, callback


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a log of three real trials of a template of the library."""
    path = tmp_path_factory.mktemp("verify") / "log.json"
    task = autotune.create("softmax.cpu", (64, 100), "llvm")
    option = measure_option(LocalBuilder(), LocalRunner(number=20))
    GridSearchTuner(task).tune(3, option, callbacks=[callback.log_to_file(str(path))])
    return path


def verify(*args):
    return CliRunner().invoke(main, ["verify", *map(str, args)])


def test_the_best_record_is_measured_again(log):
    result = verify(log)
    assert "softmax.cpu (64, 100)" in result.output
    assert "1 records hold" in result.output


def test_a_time_that_no_longer_holds_ends_with_status_1(log, tmp_path):
    row = json.loads(log.read_text().splitlines()[0])
    row["result"][0] = [1e-12]
    row.pop("ci95", None)
    faked = tmp_path / "faked.json"
    faked.write_text(json.dumps(row) + "\n")
    result = verify(faked)
    assert result.exit_code == 1
    assert result.output.startswith("slower")
    assert "0 of 1 records hold" in result.output


def test_a_missing_module_is_named(log):
    result = verify(log, "--module", "no_such_templates")
    assert result.exit_code == 1
    assert "--module no_such_templates: No module named" in result.output


def test_an_empty_log_holds_nothing(tmp_path):
    empty = tmp_path / "empty.json"
    empty.write_text("")
    assert verify(empty).exit_code == 1
