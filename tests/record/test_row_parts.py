"""A row that is read part by part says what it says when it is read whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import RecordError
from autotune.record.codec import Decoder
from autotune.record.row_parts import PartReader
from autotune.workload import ScheduleSteps
from tests.record.records import TVM_FAILED_ROW, TVM_ROW, row

MARKS = (
    ', "config": {"index": ', ', "code_hash": ', ', "entity": [["', '], ["', ']]}, "result": ',
    '"input"', "{", "}", "[", "]", ", ", ": ", "\\", '"', "null",
)  # fmt: skip
texts = st.one_of(
    st.text(max_size=5),
    st.lists(st.sampled_from([*MARKS, "a", "\u00e9", "\ud800"]), max_size=4).map("".join),
)
numbers = st.one_of(st.integers(-1, 3), st.floats(), st.just(10**30))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=2)
    ),
    max_leaves=5,
)
sizes = st.lists(st.integers(1, 9), max_size=3)
choices = st.one_of(
    st.tuples(st.sampled_from("abc"), st.just("sp"), sizes),
    st.tuples(st.sampled_from("abc"), st.just("an"), st.lists(texts, max_size=2)),
    st.tuples(texts, st.just("ot"), values),
    values,
)
results = st.one_of(
    st.tuples(
        st.lists(st.floats(1e-9, 1), min_size=1, max_size=2), st.sampled_from([0, 0, 1, 9]),
        st.floats(0, 1), st.just(1.5),
    ),
    values,
)  # fmt: skip


@st.composite
def rows(draw):
    """Draw the text of a row: nearly always AutoTVM's form, with values of any kind."""
    config = {
        "index": draw(st.one_of(st.integers(0, 99), values)),
        "code_hash": draw(st.one_of(st.none(), texts)),
        "entity": draw(st.lists(choices, max_size=4)),
    }
    data = {
        "input": draw(
            st.sampled_from([["c", "t", [1, [2]], {}], ["c", "t", [1.0, [2]], {}], [1]])
        ),
        "config": config,
        "result": draw(results),
        "version": draw(st.sampled_from([0.2, 0.2, 0.2, 0.1, "v0.6"])),
        "tvm_version": "0.12.0",
        **draw(st.dictionaries(texts, values, max_size=2)),
    }
    spacing = draw(st.sampled_from([None, None, None, (",", ":"), (" , ", " : ")]))
    text = json.dumps(data, separators=spacing, ensure_ascii=draw(st.booleans()))
    return draw(spoilt(text))


@st.composite
def spoilt(draw, text):
    """Draw a text in which something may be put in, cut out or said twice."""
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 20)))
        part = draw(st.sampled_from([*MARKS, "", " ", text[start:end], *TWICE]))
        where = draw(st.sampled_from([(start, start), (start, end), *_ends(text)]))
        text = text[: where[0]] + part + text[where[1] :]
    return text


TWICE = (
    ', "config": {"index": 7, "code_hash": null, "entity": [["a", "ot", 1]]}',
    ', "result": [[1e-3], 0, 1.0, 1.0]', ', "input": ["c", "u", [], {}]', ', "version": 0.2',
    '"input": 1, ', ', "index": 3', ', "v": 0.2', ', "error_msg": "x"',
    ', "graph": ["c", "n", "k"], "steps": []',
)  # fmt: skip


def _ends(text):
    """Return places at which another key fits: behind each member of the outer object."""
    found = [text.find(key) for key in ('"config"', '"result"', '"version"', ', "code_hash"')]
    return [(at, at) for at in (1, len(text) - 1, *found) if at >= 0]


def outcome(decoder, text):
    try:
        pair = decoder.decode(text)
    except RecordError as error:
        return "refused", str(error)
    if pair is None:
        return None
    (target, task, config), result = pair
    if isinstance(config, ScheduleSteps):
        return repr((str(target), task.key, config.to_json(), result, list(result.extra.items())))
    return repr(
        (str(target), task, config.to_json_dict(), list(config.recorded), config.cost, result,
         list(result.extra.items()), result.error_msg)
    )  # fmt: skip


@given(st.lists(rows(), min_size=1, max_size=4))
def test_reading_by_parts_equals_reading_whole(lines):
    by_parts = Decoder()
    for text in (*lines, *lines):
        whole = Decoder()
        whole._parts.read = lambda text: None
        assert outcome(by_parts, text) == outcome(whole, text)


@pytest.fixture
def taken(monkeypatch):
    """Which rows were read by parts."""
    said, read = [], PartReader.read

    def noting(self, text):
        parts = read(self, text)
        said.append(parts is not None)
        return parts

    monkeypatch.setattr(PartReader, "read", noting)
    return said


@pytest.mark.parametrize(
    "text", [TVM_ROW, TVM_FAILED_ROW, row(ci95=[1.0, 2.0], kernel_hash="ab"), row(error_msg="]]}")]
)
def test_rows_as_they_are_written_are_read_by_parts(taken, text):
    decoder = Decoder()
    for _ in range(2):
        assert decoder.decode(text) is not None
    assert taken == [True, True]


def test_extra_keys_of_rows_are_their_own():
    decoder = Decoder()
    first, second = (decoder.decode(TVM_ROW)[1].extra for _ in range(2))
    first["seen"] = True
    assert second == {}
    assert decoder.decode(TVM_ROW)[1].extra == {}


@pytest.mark.parametrize(
    "text",
    [
        TVM_ROW.replace(", ", ","),
        TVM_ROW[:-1] + ', "config": {"index": 1, "code_hash": null, "entity": []}}',
        TVM_ROW.replace('{"input"', '{"tvm_version": "0.7", "input"'),
        TVM_ROW.replace('"entity": [[', '"entity": [ ['),
        TVM_ROW[:-1] + ', "graph": ["llvm", "name", "key"], "steps": []}',
    ],
)
def test_other_rows_are_read_whole(taken, text):
    assert Decoder().decode(text) is not None
    assert taken == [False]
