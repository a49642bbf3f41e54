"""Files that anybody may have written: each ends in records that logs can hold, or in words."""

import gzip
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from autotune.errors import AutotuneError
from autotune.interchange import (
    Expression,
    ExpressionRefused,
    ForeignFileError,
    foreign_files,
    import_files,
    read_foreign,
    read_t1,
)
from autotune.measure.types import LEAST_S
from autotune.record import decode, encode
from tests.faults.test_hostile_logs import places, pool, put

DATA = Path(__file__).parents[1] / "data" / "interchange"
FILES = [
    DATA / "kernel_tuner" / "vector_add_c.json",
    DATA / "kernel_tuner" / "convolution_failed.json",
    DATA / "t4" / "vector_add_c.json",
    *sorted(DATA.rglob("*.autotune.json")),
]
T1 = DATA / "t1" / "convolution.json"
PAYLOAD = '__import__("os").system("touch executed")'
CHANGED, CUT = 80, 20


def changed(data, draw):
    values = [*pool(PAYLOAD), -(10**400), "NaN", {"time": []}, [float("inf")] * 3]
    for _ in range(draw.choice([1, 1, 2, 4])):
        data = put(data, draw.choice(list(places(data))), draw.choice(values))
    return data


def said(error):
    assert 0 < len(str(error)) < 1000


def taken(path):
    """Import a file; return how many records it gave, all of them such as a log can hold."""
    try:
        found = list(import_files([path], target="cuda", name="t"))
    except AutotuneError as error:
        said(error)
        return 0
    for one in found:
        assert all(len(problem) < 1000 for problem in one.problems)
        for inp, result in one.records:
            assert all(cost >= LEAST_S for cost in result.costs)
            again = decode(encode(inp, result).encode().decode())
            assert (again[0].key, again[1].costs) == (inp.key, result.costs)
    return sum(len(one.records) for one in found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name[:12]}-{path.stem}")
def test_any_value_anywhere_gives_records_or_words(path, tmp_path):
    draw, true = random.Random(path.name), json.loads(path.read_text())
    hostile, read = tmp_path / path.name, 0
    for _ in range(CHANGED):
        text = json.dumps(changed(true, draw))
        hostile.write_text(text, "utf-8", "replace")
        read += taken(hostile)
    assert read > CHANGED / 3  # most values stand where they do no harm


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name[:12]}-{path.stem}")
def test_a_file_cut_anywhere_gives_records_or_words(path, tmp_path):
    draw, true = random.Random(path.name), path.read_bytes()
    hostile = tmp_path / path.name
    for _ in range(CUT):
        start, end = sorted(draw.randrange(len(true)) for _ in range(2))
        for content in (
            true[:end],
            true[start:],
            true[:start] + true[end:],
            gzip.compress(true)[:end],
        ):
            hostile.write_bytes(content)
            taken(hostile)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00", b"[" * 10**5, b'{"a":' * 10**5, b"9" * 10**5, b"null", b"[]",
     b"{}", b"\x1f\x8bx"],
)  # fmt: skip
def test_what_is_no_such_file_is_said_in_words(content, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ForeignFileError, match=r"x\.json"):
        read_foreign(path)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign_files, "LARGEST", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 24)))
    with pytest.raises(ForeignFileError, match="more than 1 MiB"):
        read_foreign(path)


def test_expressions_of_a_t1_file_are_values_and_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    true, draw = json.loads(T1.read_text()), random.Random(0)
    path = tmp_path / "x.json"
    for _ in range(CHANGED):
        path.write_text(json.dumps(changed(true, draw)), "utf-8", "replace")
        try:
            read_t1(path)
        except AutotuneError as error:
            said(error)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "text",
    [
        PAYLOAD, "().__class__", "open('x')", "[x for x in range(10**9)]", "9**9**9", "1 << 10**6",
        "'a' * 10**9", "[0] * 10**9", "lambda: 0", "x := 3", "f'{x}'", "range(10**12)", "(" * 500,
        "a.b", "list(range(9), key=print)", "print(1)", "{1: 2}", "*[1]", "1 if", None, 3,
        "[[[x for x in range(99999)] for y in range(99999)] for z in range(99999)]",
        "sum([[0], [1]], [])", "[1 for x in range(33000) if -1 in range(99999)]",
        "[sum(range(9999)) for x in range(9999)]", "[[1] + [2] * 1 for x in range(3)]",
        "'%999999999d' % 3", "[x for x in [1] for y in x]",
    ],
)  # fmt: skip
def test_an_expression_that_is_more_than_a_value_is_refused(text):
    with pytest.raises(ExpressionRefused):
        Expression.parse(text)({})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2, 4]", [1, 2, 4]),
        ("list(range(1, 9, 3))", [1, 4, 7]),
        ("[2**i for i in range(5) if i != 2]", [1, 2, 8, 16]),
        ("[32*i for i in range(1, 3)] + [-1]", [32, 64, -1]),
        ("x == 0 or y % 2 != 0", True),
        ("1 < x <= 3 and y in [4, 5]", False),
        ("max(x, 7) // 2 if y else 'a'", 3),
    ],
)
def test_an_expression_of_values_is_evaluated_as_python_does(text, value):
    assert Expression.parse(text)({"x": 0, "y": 4}) == value


def test_the_command_ends_in_words_and_commands_no_terminal(tmp_path):
    data = json.loads(FILES[0].read_text())
    data["kernel_name"] = "v\x1b]0;owned\x07"
    data["cache"]["\x1b[2J"] = "\x1b[2J"
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    named = CliRunner().invoke(main, ["import", str(path), "-o", str(tmp_path / "x.log")])
    assert named.exit_code == 1
    assert "--task NAME" in named.output
    out = ["-o", str(tmp_path / "x.log"), "--task", "v"]
    done = CliRunner().invoke(main, ["import", str(path), *out])
    assert done.exit_code == 0, done.output
    assert done.output.replace("\n", "").isprintable()
