"""Inputs of a task that must not be random, such as indices, and have values by their names."""

import numpy as np
import pytest

from autotune import te
from autotune.auto_scheduler import (
    ComputeDAG,
    LocalBuilder,
    LocalRunner,
    MeasureInput,
    SearchTask,
    recover_measure_input,
)
from autotune.auto_scheduler.problem.task_inputs import (
    TASK_INPUT_BUFFER_TABLE,
    TASK_INPUT_CHECK_FUNC_REGISTRY,
    get_task_input_buffer,
    register_task_input_buffer,
    register_task_input_check_func,
)
from autotune.auto_scheduler.records.file import dump_record_to_string, load_record_from_string
from autotune.measure import MeasureResult
from autotune.runtime import array


@pytest.fixture(autouse=True)
def _tables():
    yield
    TASK_INPUT_BUFFER_TABLE.clear()
    TASK_INPUT_CHECK_FUNC_REGISTRY.clear()


def gather():
    """One number of a table, at a place that an input says."""
    table = te.placeholder((4,), "int32", name="table")
    place = te.placeholder((1,), "int32", name="place")
    return [table, place, te.compute((1,), lambda i: table[place[i]], name="found")]


def task_of(place, **more):
    dag = ComputeDAG(gather())
    return SearchTask(compute_dag=dag, target="c", task_inputs={"place": place}, **more)


def values_of(task):
    return task.realise(task.compute_dag.init_state).reference.values


def test_trials_run_on_the_values_that_are_given():
    task = task_of(array(np.array([3], "int32")))  # random places lie outside of the table
    state = task.compute_dag.init_state
    builder, runner = LocalBuilder(), LocalRunner(timeout=30, seed=5)
    built = builder.build([MeasureInput(task, state)], verbose=0)
    (result,) = runner.run([MeasureInput(task, state)], built, verbose=0)
    assert (result.error_no, result.error_msg) == (0, "")
    assert all(cost.value > 0 for cost in result.costs)
    builder.close()
    runner.close()


def test_a_value_of_another_shape_is_refused_by_name():
    with pytest.raises(AssertionError, match=r"'place' has shape \(1,\), got \(3,\)"):
        task_of(np.zeros(3, "int32"))


def test_a_record_names_the_inputs_and_the_recovered_task_has_their_values():
    place = np.array([2], "int32")
    task = task_of(place)
    inp = MeasureInput(task, task.compute_dag.init_state)
    line = dump_record_to_string(inp, MeasureResult((1e-3,), 0, 1.0, 0.0))
    assert '1, ["place"]]' in line
    again = recover_measure_input(load_record_from_string(line)[0]).task
    assert again.task_input_names == ["place"]
    assert values_of(again)[1] is place
    TASK_INPUT_BUFFER_TABLE.clear()
    assert values_of(recover_measure_input(load_record_from_string(line)[0]).task) == {}


def test_a_value_is_replaced_only_when_that_is_asked_for():
    task = task_of(first := np.array([0], "int32"))
    with pytest.raises(AssertionError, match=r"'place' of workload .* has a value already"):
        task_of(np.array([1], "int32"))
    other = task_of(np.array([1], "int32"), task_inputs_overwrite=True)
    assert values_of(task)[1] is first
    assert values_of(other)[1][0] == 1
    assert task == other
    assert task.given_inputs != other.given_inputs


def test_a_function_may_say_which_inputs_have_values_under_other_names():
    @register_task_input_check_func
    def places(tensors):
        return {each: "index" for each in tensors if each.name == "place"}

    with pytest.raises(AssertionError, match="is registered already"):
        register_task_input_check_func(places)
    register_task_input_buffer("default", "index", index := np.array([1], "int32"))
    task = SearchTask(compute_dag=ComputeDAG(gather()), target="c")
    assert values_of(task) == {1: index}
    assert get_task_input_buffer("default", "index") is index
    with pytest.raises(AssertionError, match="'other' of workload default has no value"):
        get_task_input_buffer("default", "other")
