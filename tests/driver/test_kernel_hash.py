"""The hash of a kernel knows its reference, whatever other threads parse meanwhile."""

import ast
import sys

import autotune.driver.kernel_hash  # noqa: F401 - its name is that of a function as well
from autotune import te
from tests.te.graphs import padded_convolution
from tests.te.test_steps import every_primitive

parsing = sys.modules["autotune.driver.kernel_hash"]


def reference(x):
    return 2 * x


def test_a_text_is_parsed_again_where_another_thread_confused_python(monkeypatch):
    attempts, parse = [], ast.parse

    def confused(text):
        attempts.append(text)
        if len(attempts) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=88, after=95)")
        return parse(text)

    monkeypatch.setattr(ast, "parse", confused)
    parsing._source.cache_clear()
    assert "2 * x" in parsing._source(reference.__code__)
    assert len(attempts) == 3


def test_the_hash_of_a_schedule_is_that_of_the_logs_that_have_it():
    """Stages by place and splits in two, as steps were when the first logs were written."""
    s = every_primitive(view=False)
    assert parsing.of_schedule(s, list(s.outputs[0].outputs)) == "4e1803b77a8c9c46"
    *_, relu = padded_convolution()
    s = te.create_schedule(relu.op)
    y, x = relu.op.axis[-2:]
    s[relu].split(y, nparts=3)
    s[relu].split(x, 4)
    assert parsing.of_schedule(s, [relu]) == "09fbcfa68c3717fc"


def test_a_split_in_several_has_the_hash_of_splits_in_two():
    *_, relu = padded_convolution()
    one, two = te.create_schedule(relu.op), te.create_schedule(relu.op)
    one[relu].multi_split(relu.op.axis[-1], [2, 4])
    _, inner = two[relu].split(relu.op.axis[-1], 8)
    two[relu].split(inner, 4)
    assert parsing.of_schedule(one, [relu]) == parsing.of_schedule(two, [relu])
