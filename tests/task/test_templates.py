"""Templates, tasks, and which configuration a template gets."""

import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from autotune import te
from autotune.errors import InstantiationError, SpaceError, TemplateError
from autotune.kernel import SourceKernel, arg
from autotune.target import Target
from autotune.task import (
    ApplyConfig,
    ConfigEntity,
    ConfigSpace,
    DispatchContext,
    Task,
    args_to_workload,
    create,
    deserialize_args,
    get_config,
    register,
    register_operator,
    serialize_args,
    template,
)

pytestmark = pytest.mark.usefixtures("own_registry")


def make_scale():
    @template("test.scale")
    def scale(n, dtype="float32"):
        cfg = get_config()
        cfg.define_split("tile", n, num_outputs=2)
        cfg.define_knob("vec", [1, 2, 4])
        cfg.add_flop(2 * n)
        cfg.add_bytes(8 * n)
        if cfg["vec"].val == 4 and cfg["tile"].size[-1] == 1:
            cfg.raise_error("vector wider than its tile")
        defines = {"TILE": cfg["tile"].size[-1], "VEC": cfg["vec"].val}
        args = [arg("A", (n,), dtype), arg("B", (n,), dtype, role="out")]
        return SourceKernel("scale", source="void scale() {}\n", args=args, defines=defines)

    return scale


def test_a_schedule_that_only_moves_elements_is_rated_by_its_bytes():
    @template("test.transpose")
    def transpose(n):
        a = te.placeholder((n, 2 * n), name="A")
        b = te.compute((2 * n, n), lambda i, j: a[j, i], name="B")
        schedule = te.create_schedule(b.op)
        get_config().define_split("tile", schedule[b].op.axis[0], num_outputs=2)
        return schedule, [a, b]

    task = create("test.transpose", (8,), "llvm")
    assert (task.flop, task.bytes) == (0, 2 * 4 * 8 * 16)


def test_creating_a_task_collects_its_knobs():
    make_scale()
    task = create("test.scale", (16,), "llvm")
    assert task.config_space.dims == [5, 3]
    assert (task.flop, task.bytes) == (32, 128)
    assert task.workload == ("test.scale", 16)
    assert str(task.target) == "llvm -keys=cpu"
    assert task.kwargs == {}


@pytest.mark.parametrize(("said", "moved"), [(0, 2 * 16 * 4), (99, 99)])
def test_bytes_of_tensor_expressions_are_counted_unless_the_template_says_them(said, moved):
    @template("test.te_scale")
    def te_scale(n):
        get_config().add_bytes(said)
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2)
        return te.create_schedule(b.op), [a, b]

    task = create("test.te_scale", (16,), "llvm")
    assert (task.flop, task.bytes) == (16, moved)


def test_instantiating_runs_the_template_with_one_configuration():
    make_scale()
    task = create("test.scale", (16,), "llvm")
    index = task.config_space.knob2point([3, 1])
    assert task.instantiate(task.config_space.get(index)).defines == {"TILE": 8, "VEC": 2}


def test_examples_are_the_first_points_that_filters_leave():
    @template("test.filtered")
    def filtered(n):
        cfg = get_config()
        cfg.define_knob("k", list(range(n)))
        cfg.multi_filter(lambda c: c["k"].val >= 100)
        a = te.placeholder((n,), name="A")
        c = te.compute((n,), lambda i: a[i] + 1.0, name="C")
        return te.create_schedule(c.op), [a, c]

    found = [config["k"].val for config in create("test.filtered", (103,), "llvm").examples()]
    assert found == [100, 101, 102]


def test_an_impossible_configuration_is_an_instantiation_error():
    make_scale()
    task = create("test.scale", (16,), "llvm")
    config = task.config_space.get(task.config_space.knob2point([0, 2]))
    for _ in range(2):  # errors of one run do not add up in the next
        with pytest.raises(InstantiationError) as caught:
            task.instantiate(config)
        assert str(caught.value) == "vector wider than its tile"


def config_of(index=7, **values):
    entity = [[n, "sp" if isinstance(v, list) else "ot", v] for n, v in values.items()]
    return ConfigEntity.from_json_dict({"index": index, "code_hash": None, "entity": entity})


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            config_of(tile=[-1, 4]),
            "configuration 7 lacks the knob 'vec' that the template defines (a template defines "
            "all its knobs, whatever values they have)",
        ),
        (config_of(tile=[-1, 4], vec=1, lanes=2), "names the knob 'lanes', which the template"),
        (config_of(tile=[-1, 3], vec=1), "knob 'tile' = [-1, 3] does not fit: the factors do not"),
        (config_of(tile=[8, 4], vec=1), "the factors do not divide the axis of length 16"),
        (config_of(tile=[-1, 2, 2], vec=1), "it has 3 sizes, the template splits into 2"),
        (config_of(tile=[-1, 0], vec=1), "sizes are positive"),
        (config_of(tile=4, vec=1), "the template splits an axis with it"),
        (config_of(tile=[-1, 4], vec=[1]), "'vec' = [1] does not fit: the template offers 1, 2"),
    ],
)
def test_a_configuration_of_another_template_is_named_knob_by_knob(config, text):
    scale = make_scale()
    with pytest.raises(SpaceError) as caught:
        create("test.scale", (16,), "llvm").instantiate(config)
    assert text in str(caught.value)
    with ApplyConfig(config), pytest.raises(SpaceError) as caught:
        scale(16)
    assert text in str(caught.value)


def test_explicit_outer_factors_of_old_logs_are_accepted():
    scale = make_scale()
    with ApplyConfig(config_of(tile=[4, 4], vec=2)):
        assert scale(16).defines == {"TILE": 4, "VEC": 2}


def test_knobs_defined_only_for_some_values_are_no_error():
    @template("test.conditional")
    def conditional(n):
        cfg = get_config()
        cfg.define_knob("use", [False, True])
        if not cfg["use"].val:
            cfg.define_knob("only_without", [1, 2])
        cfg.add_flop(1)
        return SimpleNamespace()

    task = create("test.conditional", (4,), "llvm")
    assert task.config_space.dims == [2, 2]
    task.instantiate(task.config_space.get(task.config_space.knob2point([1, 1])))


def test_keyword_arguments_stand_at_their_place_in_the_workload():
    scale = make_scale()
    seen = []

    class Spy(DispatchContext):
        def _query_inside(self, target, workload):
            seen.append(workload)

    with Spy():
        scale(16)
        scale(n=16)
        scale(16, dtype="float16")
    assert seen == [("test.scale", 16), ("test.scale", 16), ("test.scale", 16, "float16")]
    with pytest.raises(TemplateError, match=r"template 'test.scale': missing.*'n'"):
        scale(size=3)


@pytest.mark.parametrize("name", ["a\nb", "a\0", "\x1b[2J"])
def test_a_name_that_no_log_can_hold_is_refused(name):
    for declare in (template, register_operator):
        with pytest.raises(TemplateError, match="must be a printable text of one line, got"):
            declare(name)


def test_a_name_is_registered_once():
    make_scale()
    with pytest.raises(ValueError, match=r"already registered for task 'test.scale'"):
        make_scale()
    register("test.scale", lambda: None, override=True)


def test_an_unknown_template_is_an_error_when_it_is_needed():
    task = Task("nobody.wrote.this", (1, 2), "llvm")
    assert task.workload == ("nobody.wrote.this", 1, 2)
    with pytest.raises(RuntimeError, match=r"no template is registered for task 'nobody\."):
        task.instantiate(ConfigEntity(0, None, {}))
    with pytest.raises(TemplateError):
        create("nobody.wrote.this", (), "llvm")


def test_a_task_needs_a_target():
    make_scale()
    with pytest.raises(TemplateError, match="needs a target"):
        create("test.scale", (16,))
    with Target("llvm"):
        assert create("test.scale", (16,)).target == Target("llvm")


def test_a_bare_decorator_uses_the_function_name_and_create_takes_the_function():
    @template
    def bare_scale(n):
        get_config().define_knob("k", [1, 2])
        get_config().add_flop(1)
        return SimpleNamespace()

    assert create(bare_scale, (4,), "llvm").name == "bare_scale"
    for nameless in (len, lambda: None):
        with pytest.raises(TemplateError, match="is no template"):
            create(nameless, (), "llvm")


def test_a_plain_function_becomes_the_template_of_its_name():
    def plain_scale(n):
        get_config().define_knob("k", [1, 2])
        get_config().add_flop(n)
        return SimpleNamespace()

    for _ in range(2):
        task = create(plain_scale, (4,), "llvm")
    assert (task.name, len(task.config_space)) == ("plain_scale", 2)
    assert create("plain_scale", (8,), "llvm").flop == 8

    def another():
        return SimpleNamespace()

    another.__name__ = "plain_scale"
    with pytest.raises(TemplateError, match="already registered for task 'plain_scale'"):
        create(another, (), "llvm")


def test_arguments_become_plain_values():
    tensor = te.placeholder((4, 8), "float16", "A")
    args = (tensor, [1, (2, None)], np.int64(3), 2.5, "x", te.const(7))
    plain = serialize_args(args)
    assert plain == (("TENSOR", (4, 8), "float16"), (1, (2, None)), 3, 2.5, "x", 7)
    assert args_to_workload(args, "t") == ("t", *plain)
    back = deserialize_args(plain)
    assert (back[0].shape, back[0].dtype, back[1:]) == ((4, 8), "float16", list(plain[1:]))
    with pytest.raises(RuntimeError, match="object cannot be an argument of a task"):
        serialize_args([object()])


def test_the_operations_of_a_schedule_are_counted_when_the_template_does_not_say():
    @template("test.add")
    def add(n):
        a, b = (te.placeholder((n,), name=name) for name in "AB")
        c = te.compute((n,), lambda i: a[i] + b[i], name="C")
        s = te.create_schedule(c.op)
        cfg = get_config()
        cfg.define_split("tile", c.op.axis[0], num_outputs=2)
        cfg["tile"].apply(s, c, c.op.axis[0])
        return s, [a, b, c]

    task = create("test.add", (32,), "llvm")
    assert task.flop == 32
    schedule, tensors = task.instantiate(task.config_space.get(3))
    assert [t.name for t in tensors] == ["A", "B", "C"]
    assert len(schedule[tensors[-1]].leaf_iter_vars) == 2


def test_a_task_pickles_by_name_and_imports_its_template(tmp_path):
    (tmp_path / "pickled_template.py").write_text(
        "from types import SimpleNamespace\n"
        "from autotune.task import get_config, template\n"
        "@template('test.pickled')\n"
        "def t(n):\n"
        "    get_config().define_knob('k', list(range(n)))\n"
        "    return SimpleNamespace()\n"
    )
    write = "import pickled_template, pickle, sys; from autotune.task import create; "
    write += "sys.stdout.buffer.write(pickle.dumps(create('test.pickled', (5,), 'llvm')))"
    read = "import pickle, sys; t = pickle.load(sys.stdin.buffer); "
    read += "assert 'pickled_template' in sys.modules; print(len(t.config_space), t.target)"
    run = [sys.executable, "-c"]
    pickled = subprocess.run([*run, write], cwd=tmp_path, capture_output=True, check=True).stdout
    back = subprocess.run([*run, read], cwd=tmp_path, input=pickled, capture_output=True)
    assert back.stdout.decode().split() == ["5", "llvm", "-keys=cpu"], back.stderr


def test_configurations_compare_hash_and_pickle_by_content():
    space = ConfigSpace()
    space.define_split("tile", 8, num_outputs=2)
    space.define_knob("opt", [[1, 2], {"a": 1}])
    one, same, other = space.get(5), space.get(5), space.get(4)
    assert one == same != other
    assert len({one, same, other}) == 2
    assert pickle.loads(pickle.dumps(one)) == one
    assert ConfigEntity.from_json_dict(one.to_json_dict()) == one
    assert list(one.get_other_option().values()) == [{"a": 1}]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (64, r"a tuple or list, such as \(1024, 'float32'\), got 64"),
        ("64", "a tuple or list"),
        ((1, 2, 3, 4), r"cannot take the arguments \(1, 2, 3, 4\): too many positional"),
    ],
)
def test_arguments_that_do_not_fit_the_template_are_named(args, message):
    make_scale()
    with pytest.raises(TemplateError, match=message):
        create("test.scale", args=args, target="llvm")


@pytest.mark.parametrize("output", [(1, 2, 3), "a kernel", ("a", []), {}, (object(), object())])
def test_a_template_that_returns_no_kernel_is_refused_when_its_task_is_made(output):
    template("test.no_kernel", lambda: output)
    with pytest.raises(TemplateError, match="expected it to return a SourceKernel or"):
        create("test.no_kernel", args=(), target="llvm")


def test_a_task_is_instantiated_with_a_configuration_and_not_with_its_index():
    make_scale()
    with pytest.raises(SpaceError, match=r"such as task.default\(\), got 3"):
        create("test.scale", (64,), target="llvm").instantiate(3)


def test_a_text_where_a_template_wants_a_whole_number_is_named():
    @template("test.counted")
    def counted(n: int, unit: int = 1):
        get_config().define_knob("k", list(range(n // unit)))
        return SourceKernel("f", "void f(float *x) {}", [arg("x", (n,), role="inout")])

    with pytest.raises(TemplateError, match=r"\(8, '4'\): unit must be a whole number, got '4'"):
        create("test.counted", args=(8, "4"), target="llvm")


def test_a_type_error_of_the_templates_own_is_left_as_it_is():
    @template("test.mistaken")
    def mistaken(n: int):
        return n + "1"

    with pytest.raises(TypeError, match="unsupported operand"):
        create("test.mistaken", args=(8,), target="llvm")
