"""What a template runs with untuned where its filters reject the first value of each knob."""

import pytest

import autotune
from autotune.errors import SpaceError
from autotune.task import OtherOptionEntity


@autotune.template("tests.filtered_default")
def product_of_four(n, choose=False):
    cfg = autotune.get_config()
    if choose and cfg.is_fallback:
        cfg["a"] = OtherOptionEntity(1)
        cfg["b"] = OtherOptionEntity(1)
    cfg.define_knob("a", [1, 2, 4])
    cfg.define_knob("b", [1, 2, 4])
    cfg.multi_filter(lambda c: c["a"].val * c["b"].val == n)
    return autotune.SourceKernel(
        "f",
        "void f(float *y) { y[0] = A * B; }",
        defines={"A": cfg["a"].val, "B": cfg["b"].val},
        args=[autotune.arg("y", (1,), role="out")],
    )


def test_an_untuned_template_keeps_its_own_filters():
    with autotune.Target("llvm"):
        assert product_of_four(4).defines == {"A": 4, "B": 1}
    assert product_of_four(4).defines == {"A": 4, "B": 1}
    assert product_of_four(1).defines == {"A": 1, "B": 1}


def test_its_default_is_a_point_of_the_space():
    task = autotune.create("tests.filtered_default", args=(4,), target="llvm")
    assert task.default().index == 2
    task.instantiate(task.default())
    with pytest.raises(autotune.AutotuneError, match=r"such as task.default\(\), got 0"):
        task.instantiate(0)
    with pytest.raises(IndexError, match="valid config: 0; a filter rejects it, draw valid ones"):
        task.config_space.get(0)


def test_what_a_template_chooses_itself_is_kept():
    with autotune.Target("llvm"):
        assert product_of_four(4, True).defines == {"A": 1, "B": 1}


def test_filters_that_leave_nothing_are_an_error_untuned_too():
    with autotune.Target("llvm"), pytest.raises(autotune.AutotuneError, match="leaves no point"):
        product_of_four(3)
    assert autotune.create("tests.filtered_default", args=(3,), target="llvm").default() is None


def test_a_first_valid_point_far_from_the_first_index_is_found():
    space = autotune.task.ConfigSpace()
    space.define_knob("low", list(range(2**15)))
    space.define_knob("high", [0, 1])
    space.multi_filter(lambda c: c["high"].val == 1)
    assert space.first_valid()["high"].val == 1


def test_a_default_that_is_none_is_refused_with_a_point_to_take_instead():
    @autotune.template("tests/default/tuned_only")
    def tuned_only():
        cfg = autotune.get_config()
        cfg.define_knob("x", [1, 2])
        if cfg.is_fallback:
            raise RuntimeError("tune me first")

    task = autotune.create("tests/default/tuned_only", (), "c")
    with pytest.raises(SpaceError, match=r"got None, which task.default.. returns .*get.0."):
        task.instantiate(task.default())
    with pytest.raises(RuntimeError, match="tune me first"):
        task.instantiate(autotune.task.FallbackConfigEntity())
