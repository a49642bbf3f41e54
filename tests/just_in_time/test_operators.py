"""Calls that ask for an operator: by which template it is computed, and what is refused."""

import numpy as np
import pytest

import autotune
from autotune.errors import FrozenError, KernelError, TunerError
from autotune.just_in_time import background, store
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.network import implements
from autotune.network.implementations import _TABLE, Offer
from autotune.record import open_database
from autotune.runtime import array

TEXT = """
void shares(const float *x, float *y) {
  for (int r = 0; r < N / C; r++) {
    float sum = 0;
    for (int i = r * C; i < r * C + C; i++) sum += __builtin_expf(x[i]);
    for (int i = r * C; i < r * C + C; i++) y[i] = x[i] - __builtin_logf(sum);
  } /* STEP */
}
"""


def kernel(shape, columns, step, reference=None):
    args = [autotune.arg("x", shape), autotune.arg("y", shape, role="out")]
    text = TEXT.replace("STEP", str(step))
    defines = {"N": int(np.prod(shape)), "C": columns}
    return autotune.SourceKernel("shares", text, args, defines, reference=reference)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@autotune.template("tests.jit.rows")
def rows(n, columns):
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 2])
    cfg.add_flop(n * columns)
    return kernel((n, columns), columns, cfg["step"].val, log_softmax)


@autotune.template("tests.jit.flat")
def flat(n, columns):
    cfg = autotune.get_config()
    cfg.define_knob("step", [3, 4])
    return kernel((n * columns,), columns, cfg["step"].val)


@pytest.fixture
def shares(monkeypatch, tmp_path):
    """Two templates compute the operator; returns what makes calls of it."""
    monkeypatch.setitem(_TABLE, ("nn.log_softmax", "cpu"), [])
    monkeypatch.setattr(store.environment, "cache_dir", lambda: tmp_path / "cache")

    def in_two(data):
        return data.type.size // data.shape[-1], data.shape[-1]

    @implements("nn.log_softmax", "cpu", "tests.jit.rows")
    def in_rows(layer):
        (data,) = layer.inputs
        columns = data.shape[-1]
        whole = data.type.size > 8
        return (
            Offer("tests.jit.rows", (data.type.size // columns, columns), (data,))
            if whole
            else None
        )

    @implements("nn.log_softmax", "cpu", "tests.jit.flat")
    def in_flat(layer):
        (data,) = layer.inputs
        return Offer("tests.jit.flat", in_two(data), (data,)) if data.type.size > 8 else None

    def make(**options):
        options = {"store": tmp_path / "store.log", "target": "llvm"} | options
        return autotune.jit("nn.log_softmax", key=lambda x, y: None, **options)

    yield make
    assert background.WORKER.join(60)


def put(path, template, args, index, seconds):
    task = autotune.create(template, args=args, target="llvm")
    result = MeasureResult((seconds,), 0, 0.1, 1.0)
    config = task.config_space.get(index)
    open_database(path).extend([(MeasureInput(task.target, task, config), result)])


def run(function, shape, make=lambda values: values):
    x = np.linspace(-3, 3, int(np.prod(shape)), dtype="float32").reshape(shape)
    y = np.zeros(shape, "float32")
    given, result = make(x), make(y)
    function(given, result)
    got = result.numpy() if hasattr(result, "numpy") else result
    np.testing.assert_allclose(got, log_softmax(x), rtol=1e-4, atol=1e-5)
    return function.choice(given, result)


def told(choice):
    return choice.origin, choice.template, choice.of


def test_untuned_the_first_template_of_the_registry_runs(shares):
    assert told(run(shares(), (2, 3, 5))) == ("default", "tests.jit.rows", (6, 5))


def test_the_template_that_was_tuned_runs_and_of_two_the_faster(shares, tmp_path):
    log = tmp_path / "store.log"
    put(log, flat, (6, 5), 1, 2e-6)
    chosen = run(shares(), (2, 3, 5))
    assert told(chosen) == ("exact", "tests.jit.flat", (6, 5))
    assert "/* 4 */" in chosen.module.kernel.source
    put(log, rows, (6, 5), 1, 1e-6)
    assert told(run(shares(), (2, 3, 5))) == ("exact", "tests.jit.rows", (6, 5))


def test_what_was_tuned_for_other_shapes_is_checked_and_used(shares, tmp_path):
    put(tmp_path / "store.log", rows, (12, 5), 1, 1e-6)
    assert told(run(shares(), (6, 5))) == ("nearest", "tests.jit.rows", (12, 5))


def test_all_templates_are_tuned_where_that_is_asked_for(shares, tmp_path):
    function = shares(tune="first", budget_s=20)
    chosen = run(function, (4, 5))
    assert chosen.origin == "exact"
    found = open_database(tmp_path / "store.log").records()
    assert {inp.task.name for inp, _ in found} == {"tests.jit.rows", "tests.jit.flat"}


def test_what_no_template_computes_runs_by_rule(shares):
    for tune in ("off", "first", "background"):
        function = shares(tune=tune)
        chosen = run(function, (2, 3))
        assert chosen.template == ""
        with pytest.raises(TunerError, match=r"no template computes nn.log_softmax\(\(2, 3\),\)"):
            function.task(np.zeros((2, 3), "f4"), np.zeros((2, 3), "f4"))


def test_a_frozen_program_gets_no_operator_that_is_not_locked(shares, monkeypatch, tmp_path):
    (tmp_path / "autotune.lock").write_text("version = 1\n")
    monkeypatch.setenv("AUTOTUNE_LOCK", str(tmp_path / "autotune.lock"))
    monkeypatch.setenv("AUTOTUNE_FROZEN", "1")
    with pytest.raises(FrozenError, match=r"tests.jit.rows\(6, 5\) is not in"):
        run(shares(), (2, 3, 5))
    with pytest.raises(FrozenError, match="no template computes it, so it is in no lock"):
        run(shares(), (2, 3))


@pytest.mark.parametrize("kind", ["ours", "torch"])
def test_a_kernel_that_sees_another_shape_writes_to_the_array_itself(shares, kind):
    torch = pytest.importorskip("torch") if kind == "torch" else None
    run(shares(), (2, 3, 5), array if kind == "ours" else torch.from_numpy)


@pytest.mark.parametrize("kind", ["numpy", "torch", "bfloat16"])
def test_what_cannot_be_seen_in_another_shape_is_copied_and_back(shares, kind):
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype("float32")
    apart, result = x.transpose(0, 2, 1), np.zeros((4, 5, 3), "float32")[::2].transpose(0, 2, 1)
    call, expected = shares(), log_softmax(x.transpose(0, 2, 1))
    if kind != "numpy":
        torch = pytest.importorskip("torch")
        apart, result = torch.from_numpy(apart), torch.from_numpy(result)
    if kind == "bfloat16":
        call = autotune.jit("cumsum", key=lambda x, y: None, target="llvm")
        apart, result = apart.bfloat16(), result.bfloat16()
        call(apart, result)
        assert torch.equal(result, apart.float().cumsum(-1).bfloat16())
        return
    call(apart, result)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5, atol=1e-6)


def test_a_result_that_cannot_be_copied_back_is_refused(shares):
    torch = pytest.importorskip("torch")
    x = np.zeros((2, 3, 5), "float32")
    fixed = np.zeros((2, 5, 3), "float32").transpose(0, 2, 1)
    fixed.flags.writeable = False
    with pytest.raises(
        KernelError, match="argument 1: it is written by the kernel, but the array"
    ):
        shares()(x, fixed)
    one = np.zeros((2, 3, 1), "float32")
    for shared in (np.lib.stride_tricks.as_strided(one, x.shape, (12, 4, 0)),
                   torch.from_numpy(one).expand(x.shape)):  # fmt: skip
        with pytest.raises(KernelError, match="but its elements share memory"):
            shares()(x, shared)


@pytest.mark.parametrize(
    ("given", "shapes", "message"),
    [
        ({"padding": 1}, [(1, 2, 8, 8), (4, 2, 3, 3), (1, 4, 8, 8)], None),
        ({"pad": 1}, [(1, 2, 8, 8), (4, 2, 3, 3), (1, 4, 8, 8)], "no attribute 'pad'.*padding"),
        ([1], [(1, 2, 8, 8), (4, 2, 3, 3), (1, 4, 8, 8)], "must be a dict of attributes"),
        (
            {},
            [(1, 2, 8, 8), (4, 2, 3, 3), (1, 4, 8, 8)],
            r"gives float32\[1, 4, 6, 6\], the results",
        ),
        (
            {},
            [(1, 2, 8, 8), (4, 2, 3, 3)],
            "^conv: nn.conv2d: expected 2 inputs, got 1; the arguments of a call are the inputs "
            "of nn.conv2d, then its results$",
        ),
        ({}, [], "^conv: no argument is given; the arguments of a call are the inputs of"),
        (
            {},
            [(2, 8, 8), (4, 2, 3, 3), (1, 4, 6, 6)],
            r"one dtype, got float32\[2, 8, 8\], float32\[4, 2, 3, 3\]; the arguments",
        ),
        ({}, [(1, 2, 8, 8), (4, 3, 3, 3), (1, 4, 6, 6)], "nn.conv2d"),
    ],
)
def test_attributes_and_arguments_that_do_not_fit_are_named(tmp_path, given, shapes, message):
    def conv(*arrays):
        return given

    function = autotune.jit("nn.conv2d", key=conv, store=tmp_path / "s.log", target="llvm")
    arrays = [np.ones(shape, "float32") for shape in shapes]
    if message is None:
        function(*arrays)
        assert arrays[-1][0, 0, 1, 1] == 18
        return
    with pytest.raises(TunerError, match=message):
        function(*arrays)


def test_names_that_are_no_operators_are_refused():
    for wrong in ("nn.convolution", "", "tests.jit.rows", 3):
        with pytest.raises(TunerError, match=r"template must be .* name of an operator"):
            autotune.jit(wrong, key=lambda *args: {})
    for near in ("nn.conv2", "Conv2d", "torch.nn.functional.conv2d", "nn.conv2d "):
        with pytest.raises(TunerError, match=f"got {near!r}; did you mean 'nn.conv2d'"):
            autotune.jit(near, key=lambda *args: {})
    with pytest.raises(TunerError, match=r"got 'einsum'; autotune.graph.OPERATORS has all names"):
        autotune.jit("einsum", key=lambda *args: {})


def test_what_is_no_array_is_refused(shares):
    with pytest.raises(TunerError, match="argument 0 must be an array"):
        shares()(3.0, np.zeros(9, "float32"))
    with pytest.raises(TunerError, match=r"got \[\[\[.*\.\.\.; numpy.asarray makes an") as told:
        shares()(np.full((8, 8, 8, 8), 1 / 3).tolist(), np.zeros(9, "float32"))
    assert len(str(told.value)) < 600
    for number in (2.0, np.float32(2)):
        with pytest.raises(
            TunerError, match=r"argument 1 must be an array, got .*; numpy.asarray"
        ):
            autotune.jit("add", key=lambda *_: {}, target="llvm")(*np.ones((1, 9)), number, 0)
    with pytest.raises(TunerError, match="argument 0"):
        shares()(np.zeros(9, "complex64"), np.zeros(9, "float32"))


def test_an_operator_that_is_made_of_others_is_refused_by_name():
    call = autotune.jit("nn.batch_norm", key=lambda *_: {}, target="llvm")
    arrays = [np.ones(shape, "float32") for shape in ((3, 5), *[(5,)] * 4, (3, 5))]
    with pytest.raises(TunerError, match=r"networks make nn.batch_norm of other operators"):
        call(*arrays)


def test_arguments_that_a_kernel_takes_as_they_are_are_not_arranged():
    product = autotune.jit("nn.dense", key=lambda *_: {}, target="llvm")
    x, weight, out = (np.ones(shape, "float32") for shape in [(3, 8), (5, 8), (3, 5)])
    product(x, weight, out)
    assert product.choice(x, weight, out).operands is None
    assert (out == 8).all()


@pytest.mark.parametrize("values", [1, 2])
def test_arrays_in_place_of_the_function_are_told_what_is_decorated(values):
    with pytest.raises(TunerError, match=r"key must be a function .*; jit decorates a function"):
        autotune.jit("nn.relu")(*[np.ones(4, "float32")] * values)
