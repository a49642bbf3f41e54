"""Each back end is a whole row, and nothing outside the rows asks what a target is."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import autotune
from autotune.codegen.dialect import Dialect
from autotune.errors import TargetError
from autotune.runtime.arrays.memory import memory_of
from autotune.target import Target
from autotune.target.backends import BACKENDS, CUDA, EMULATED, HOST, of_language, of_threads, part
from autotune.utils.names import load

PACKAGE = Path(autotune.__file__).parent
NAMES = [f"{row.language} on {row.device}" for row in BACKENDS]


@pytest.mark.parametrize("row", BACKENDS, ids=NAMES)
def test_all_that_a_row_names_is_there(row):
    homes = [value for each in fields(row) if ":" in str(value := getattr(row, each.name))]
    places = [home for home in homes if isinstance(home, str)] + list(row.recipes.values())
    assert len(places) >= 5
    assert all(load(home) is not None for home in places)
    assert isinstance(part(row.dialect), Dialect)
    assert set(row.compilers) <= set(row.recipes)
    assert row.limits(row.arch()).threads_per_block > 0


@pytest.mark.parametrize(
    ("text", "row"), [("cuda", CUDA), ("cuda -emulate", EMULATED), ("llvm", HOST), ("c", HOST)]
)
def test_a_target_has_its_back_end(text, row):
    assert Target(text).backend is row


def test_a_target_that_nothing_builds_for_has_none():
    with pytest.raises(TargetError, match="kernels cannot be built for target kind 'rocm'"):
        _ = Target("rocm").backend


def test_a_schedule_without_a_target_is_for_what_its_loops_ask_for():
    assert (of_threads(True), of_threads(False)) == (CUDA, HOST)
    assert of_language("cuda").on_gpu
    assert not of_language("c").on_gpu


def test_the_memory_of_the_host_is_found_by_its_row():
    assert memory_of(autotune.cpu()) is part(HOST.memory)()


ASKS = re.compile(r"(kind|language) (==|!=) [\"'](cuda|c|llvm)[\"']")
# The demo tunes against rivals that exist for one of them only; arrays of other libraries are told
# apart by the numbers of DLPack; the emulator is CUDA's own.
MAY_ASK = {
    "cli/demo.py", "cli/demo_rivals.py", "runtime/arrays/bind.py", "emulator/build.py",
}  # fmt: skip


def test_nobody_asks_what_a_target_is_but_its_row():
    for path in PACKAGE.rglob("*.py"):
        where = path.relative_to(PACKAGE).as_posix()
        if where not in MAY_ASK and not where.startswith("target/"):
            assert not ASKS.search(path.read_text("utf-8")), where
