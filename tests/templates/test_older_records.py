"""Records from before a knob was added are points of the spaces of today."""

import autotune.templates  # noqa: F401 - registers the tasks
import pytest

from autotune.errors import SpaceError
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity

TARGET = "cuda -arch=sm_90"
RECORDS = {
    "times": (
        ("transpose.cuda", ((16, 40, 24), (0, 2, 1))),
        {"v": 4, "lanes_x": 8, "lanes_y": 8, "staged": 1, "planes": 1},
    ),
    "planes-and-times": (
        ("transpose.cuda", ((16, 40, 24), (0, 2, 1))),
        {"v": 4, "lanes_x": 8, "lanes_y": 8, "staged": 1},
    ),
    "split-columns": (
        ("softmax.cuda", (1, 5000, "float32", 8)),
        {"threads": 8, "rows": 64, "width": 1, "keep": 0},
    ),
    "split-rows": (
        ("softmax.cuda", (130, 9000)),
        {"threads": 512, "rows": 1, "vec": 4, "keep": 1},
    ),
    "split-scan": (
        ("cumsum.cuda", (130, 9000)),
        {"threads": 256, "rows": 1, "vec": 4, "items": 4},
    ),
    "keys-apart": (
        ("attention.cuda", (8, 32, 1, 4096, 256, 8)),
        {"warps": 1, "keys": 16, "stages": 2, "split": 1},
    ),
}


def older(choice):
    return ConfigEntity(7, None, {name: OtherOptionEntity(v) for name, v in choice.items()})


@pytest.mark.parametrize("name", RECORDS)
def test_an_older_record_is_a_point_of_the_space_with_the_same_kernel(name):
    (template, args), choice = RECORDS[name]
    task, config = create(template, args, TARGET), older(choice)
    own = task.own(config)
    assert own.space is task.config_space
    made, before = (task.instantiate(each) for each in (own, config))
    assert made.defines == before.defines
    assert made.kernel("cuda").calls == before.kernel("cuda").calls


def test_a_record_that_lacks_another_knob_is_refused():
    with pytest.raises(SpaceError, match="lacks the knob 'staged'"):
        create("transpose.cuda", ((16, 40, 24), (0, 2, 1)), TARGET).own(
            older({"v": 4, "lanes_x": 8, "lanes_y": 8})
        )
