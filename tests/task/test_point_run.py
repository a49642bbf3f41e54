"""A point of a space is frozen; what a template says while it runs belongs to the run."""

import copy
import dataclasses
import pickle
import threading

import pytest

from autotune.errors import AutotuneError, InstantiationError
from autotune.task import ApplyConfig, ConfigEntity, create, get_config, template
from autotune.task.point_run import PointRun
from autotune.task.template import TASK_TABLE


@pytest.fixture
def task():
    TASK_TABLE.pop("test.frozen", None)

    @template("test.frozen")
    def frozen(n):
        cfg = get_config()
        cfg.define_split("tile", n, num_outputs=2)
        cfg.define_knob("vec", [1, 2, 4])
        cfg.add_flop(100 * cfg["vec"].val)
        cfg.add_bytes(8)
        if cfg["vec"].val > cfg["tile"].size[1]:
            cfg.raise_error("vector wider than its tile")

    yield create("test.frozen", (16,), "c")
    TASK_TABLE.pop("test.frozen", None)


def text_of(point):
    return (repr(point), point.to_json_dict(), point.errors, point.cost, vars(point).copy())


@pytest.mark.parametrize("name", ["index", "cost", "errors", "space", "code_hash", "flop", "new"])
def test_nothing_of_a_point_can_be_set(task, name):
    point = task.config_space.get(0)
    with pytest.raises(dataclasses.FrozenInstanceError, match="is frozen"):
        setattr(point, name, 1)
    with pytest.raises(AttributeError, match="is frozen"):
        delattr(point, name)


def test_a_run_leaves_its_point_as_it_was(task):
    for index in (0, task.config_space.range_length - 1):
        point = task.config_space.get(index)
        before = text_of(point)
        try:
            task.instantiate(point)
        except InstantiationError as error:
            assert "wider" in str(error)  # noqa: PT017 - of some points
        assert text_of(point) == before
        recorded = ConfigEntity.from_json_dict(point.to_json_dict())
        before = text_of(recorded)
        with ApplyConfig(recorded):
            get_config().add_flop(5)
        assert text_of(recorded) == before


def test_what_a_run_says_comes_with_what_it_made(task):
    flops = {
        point["vec"].val: task.realise(point).flop
        for point in map(task.config_space.get, range(task.config_space.range_length))
        if point["vec"].val <= point["tile"].size[1]
    }
    assert flops == {1: 100, 2: 200, 4: 400}
    assert task.realise(task.config_space.get(0)).bytes == 8


def test_errors_of_one_run_do_not_reach_another(task):
    point = task.config_space.get(task.config_space.knob2point([0, 2]))
    first, second = PointRun(point), PointRun(point)
    first.raise_error("mine")
    assert first.errors == ["mine"]
    assert second.valid()
    assert point.valid()


def test_one_context_is_one_run(task):
    with ApplyConfig(task.config_space.get(3)):
        get_config().add_flop(3)
        get_config().add_flop(4)
        assert get_config().flop == 7
        assert get_config() is get_config()


def test_threads_may_run_one_point_at_once(task):
    point, said = task.config_space.get(task.config_space.knob2point([0, 2])), []

    def run():
        for _ in range(200):
            try:
                task.instantiate(point)
            except InstantiationError as error:
                said.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["vector wider than its tile"] * 800


def test_points_are_copied_pickled_and_hashed(task):
    point = task.config_space.get(5)
    for twin in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert twin == point
        assert hash(twin) == hash(point)
        assert twin.key == "5"
    priced = point.with_cost(1e-3)
    assert (priced, priced.cost, point.cost) == (point, 1e-3, None)
    assert priced.space is point.space


def test_for_the_default_of_a_task_no_other_point_of_its_space_is_looked_at():
    asked = []

    @template("test.default")
    def filtered():
        cfg = get_config()
        cfg.define_knob("a", list(range(100)))
        cfg.define_knob("b", list(range(100)))
        cfg.multi_filter(lambda e: asked.append(e["a"].val) or e["a"].val + e["b"].val < 1)

    task = create("test.default", (), "c")
    found = task.default()
    assert set(asked) == {0}
    assert (found.index, text_of(found)) == (0, text_of(task.config_space.get(0)))


def test_values_that_depend_on_another_knob_are_refused_with_what_to_do():
    @template("test.dependent")
    def dependent():
        cfg = get_config()
        cfg.define_knob("a", [1, 2, 4])
        cfg.define_knob("b", [v for v in (1, 2, 4) if v >= cfg["a"].val])

    task = create("test.dependent", (), "c")
    task.instantiate(task.config_space.get(3))
    refused = r"'b': offer the same values .* multi_filter; got \[2, 4\] here, \[1, 2, 4\] when"
    with pytest.raises(AutotuneError, match=refused.replace(" multi", " cfg.multi")):
        task.instantiate(task.config_space.get(4))
