"""The hash of a kernel knows its reference, whatever other threads parse meanwhile."""

import ast
import sys

import autotune.driver.kernel_hash  # noqa: F401 - its name is that of a function as well

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
