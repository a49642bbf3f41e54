"""The log commands, run for tests, and records for them."""

import json

from click.testing import CliRunner

from autotune.cli.main import main
from tests.record.records import make_config, make_input

GEMM, CONV = ("gemm", (64, 64), "llvm"), ("conv", (1,), "llvm")


def pair(workload, index, result, **knobs):
    return make_input(*workload, make_config(index, **knobs)), result


def run(*args):
    return CliRunner().invoke(main, ["log", *(str(arg) for arg in args)])


def rows(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)
