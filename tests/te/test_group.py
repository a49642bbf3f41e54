"""Groups of stages: which belong to one, and that its primitives are those of the stages."""

import pytest

from autotune import te
from autotune.errors import ScheduleError
from autotune.lowering import lower
from tests.te.graphs import chain, diamond


def test_a_group_has_what_outputs_need_from_inputs_on():
    a, b, c, d, e = diamond()
    s = te.create_schedule(e.op)
    names = [[stage.name for stage in s.create_group(e, start).stages] for start in (a, b, [c])]
    assert names == [["B", "C", "D", "E"], ["C", "D", "E"], ["E"]]
    assert [stage.name for stage in s.create_group([c, d], b, True).stages] == ["B", "C", "D"]


def test_a_group_moves_as_its_stages_do():
    a, b, c, d = chain(8)
    s = te.create_schedule(d.op)
    s.create_group(c, a).compute_at(s[d], d.op.axis[0])
    one_by_one = te.create_schedule(d.op)
    for each in (b, c):
        one_by_one[each].compute_at(one_by_one[d], d.op.axis[0])
    assert s.steps == one_by_one.steps
    assert "for i in 0..8" in str(lower(s, [a, d]))
    assert s.create_group(c, a).compute_root().stages == (s[b], s[c])
    assert s[b].attach_type == s[c].attach_type == "root"


def test_stages_within_others_of_the_group_stay_there():
    a, b, c, d = chain()
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s.create_group(c, a).compute_at(s[d], d.op.axis[0])
    assert (s[b].attach_stage, s[c].attach_stage) == (s[c], s[d])


def test_a_group_of_nothing_is_refused():
    _, b, _, d = chain()
    s = te.create_schedule(d.op)
    with pytest.raises(ScheduleError, match="create_group: B depends on none of the inputs D"):
        s.create_group(b, d)
