"""The hash of a kernel knows what its reference computes, in every version of Python."""

import ast
import functools

from autotune.driver import reference_text
from autotune.driver.reference_text import identity


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
    reference_text._nodes.cache_clear()
    reference_text._source.cache_clear()
    assert '"Mult"' in identity(reference)
    assert len(attempts) == 3
    assert "return 2 * x" in identity(reference, former=True)


def test_a_reference_is_written_alike_by_every_version_of_python():
    def unpacked(x):
        a, b = x
        return [f"{c:>{b}}" for c, d in a[1:, None]]

    assert identity(unpacked) == (
        '["FunctionDef", {"args": ["arguments", {"args": [["arg", {"arg": "x"}]]}], "body": '
        '[["Assign", {"targets": [["Tuple", {"elts": [["Name", {"id": "a"}], ["Name", {"id": "b"}]'
        ']}]], "value": ["Name", {"id": "x"}]}], ["Return", {"value": ["ListComp", {"elt": '
        '["JoinedStr", {"values": [["FormattedValue", {"value": ["Name", {"id": "c"}], '
        '"conversion": -1, "format_spec": ["JoinedStr", {"values": ["\'>\'", ["FormattedValue", '
        '{"value": ["Name", {"id": "b"}], "conversion": -1}]]}]}]]}], "generators": '
        '[["comprehension", {"target": ["Tuple", {"elts": [["Name", {"id": "c"}], ["Name", {"id": '
        '"d"}]]}], "iter": ["Subscript", {"value": ["Name", {"id": "a"}], "slice": ["Tuple", '
        '{"elts": [["Slice", {"lower": "1"}], "None"]}]}], "is_async": 0}]]}]}]]}]'
    )


def test_an_empty_text_that_python_3_12_adds_to_a_formatted_string_does_not_count(monkeypatch):
    def formatted(x, by):
        return f"{x:>{by}}"

    before, parse = identity(formatted), ast.parse

    def of_3_12(text):
        tree = parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                node.values.append(ast.Constant(""))
        return tree

    monkeypatch.setattr(ast, "parse", of_3_12)
    reference_text._nodes.cache_clear()
    reference_text._source.cache_clear()
    assert identity(formatted) == before
    assert '"JoinedStr"' in before


def test_name_docstring_annotations_and_layout_of_a_reference_do_not_count():
    def doubled(x: list, by: int = 2) -> list:
        """Return it twice."""
        # as often as that
        y: list = by * x
        return y  # fmt: skip

    def scaled(x, by=2):
        y: object = by * x
        return y

    def other(x, by=3):
        y: object = by * x
        return y

    assert identity(doubled) == identity(scaled) != identity(other)
    assert identity(doubled, former=True) != identity(scaled, former=True)
    partials = [functools.partial(scaled, by=n) for n in (2, 3)]
    assert identity(partials[0]) != identity(partials[1])


def test_what_a_reference_computes_counts():
    first = [
        lambda x: x[1:],
        lambda x: x[:1],
        lambda x: (x, None),
        lambda x: (x, "None"),
        lambda x: (x,),
        lambda x: x,
        lambda x: x.real,
        lambda x: x("real"),
    ]
    assert len({*map(identity, first)}) == len(first)
