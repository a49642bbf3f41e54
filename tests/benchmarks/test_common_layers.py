"""The layers that benchmarks of tuning share."""

import autotune.templates
import pytest

import autotune
from benchmarks.common_layers import layers
from benchmarks.cubin import Time
from benchmarks.library_of import library_of
from benchmarks.race_records import row
from benchmarks.tuning.layers import chosen, unseen_convolutions

ONE_OF_EACH = dict(layers().values())


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_common_layers_are_tasks_that_run_untuned(name):
    task = autotune.create(name, args=ONE_OF_EACH[name], target="cuda -arch=sm_90")
    assert task.default() is not None


def test_the_library_has_each_common_layer():
    for task, args in ONE_OF_EACH.items():
        assert "generator" in type(library_of(task, args, [])).__name__


def test_layers_are_chosen_in_the_order_of_the_parts_of_their_names():
    names = list(chosen(["softmax 64", "conv 3->64", "softmax"]))
    assert names[:3] == ["softmax 64x1000", "conv 3->64 k7 s2 224", "softmax 4096x4096"]
    assert len(names) == len(set(names))


def test_one_convolution_of_each_class_is_drawn_from_a_seed_and_runs_untuned():
    drawn = unseen_convolutions(31127)
    assert drawn == unseen_convolutions(31127) != unseen_convolutions(31128)
    assert len({name.split(":")[0] for name in drawn}) == len(drawn) > 10
    (name,) = chosen(["transposed:"], 31127)
    task, args = drawn[name]
    assert autotune.create(task, args=args, target="cuda -arch=sm_90").default() is not None


def test_a_row_of_a_race_compares_with_the_default_and_the_library():
    def time(name, median):
        return Time(name, median, median - 0.1, median + 0.1)

    both = [time("record", 2.0), time("default", 2.2), time("cuBLAS", 5.0)]
    assert row("gemm", both) == "gemm | 2.00 (1.90 to 2.10) | 2.20 | 1.10 | 5.00 | 2.50 | cuBLAS"
    assert row("gemm", both[:1]) == "gemm | 2.00 (1.90 to 2.10) | - | - | - | - | -"
