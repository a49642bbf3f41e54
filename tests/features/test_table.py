"""Matrices of loop features: the same columns for all configurations, failures marked."""

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import InstantiationError, TemplateError, TunerError
from autotune.features import (
    LoopFeatures,
    get_buffer_curve_sample_flatten,
    get_itervar_feature_flatten,
    loop_feature_names,
    loop_features,
    raw_feature_names,
    raw_features,
)
from autotune.kernel import SourceKernel, arg
from autotune.task import ConfigSpace

runs = []


@autotune.template("features_test/rows")
def rows(n, m):
    """Scale rows in tiles; some configurations copy first, some are refused."""
    cfg = autotune.get_config()
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="B")
    s = te.create_schedule(b.op)
    _, j = b.op.axis
    cfg.define_split("tile_j", j, num_outputs=2)
    cfg.define_knob("copy", [0, 1])
    cfg.define_knob("depth", [1, 2, 1000])
    runs.append(cfg)
    if cfg["depth"].val == 1000:
        raise InstantiationError("too deep")
    outer, _ = cfg["tile_j"].apply(s, b, j)
    if cfg["copy"].val:
        s[s.cache_read(a, "local", [b])].compute_at(s[b], outer)
    return s, [a, b]


@autotune.template("features_test/source")
def source(n):
    """Return a hand-written kernel."""
    autotune.get_config().define_knob("block", [1, 2])
    return SourceKernel("f", "void f(float* y) {}", [arg("y", (n,), "float32", "out")])


@pytest.fixture
def task():
    return autotune.create("features_test/rows", (8, 12), "llvm")


def configurations(task, **wanted):
    """Return all configurations in which the named knobs have the given values."""
    every = [task.config_space.get(i) for i in range(len(task.config_space))]
    return [c for c in every if all(c[name].val == value for name, value in wanted.items())]


def test_rows_hold_the_flat_features_and_the_knobs(task):
    configs = configurations(task, copy=0, depth=1)
    table, names = loop_features(task, configs), loop_feature_names(task)
    assert table.dtype == np.float32
    assert table.shape == (len(configs), len(names))
    loops = [i for i, name in enumerate(names) if name.startswith("B/") and "local" not in name]
    knobs = len(names) - len(raw_feature_names(task.config_space))
    for row, config in zip(table, configs, strict=True):
        flat = get_itervar_feature_flatten(*task.instantiate(config))
        np.testing.assert_array_equal(row[loops], flat)
        np.testing.assert_array_equal(
            row[knobs:], raw_features(task.config_space, [config.index])[0].astype(np.float32)
        )


def test_columns_mean_the_same_in_all_rows(task):
    names = loop_feature_names(task)
    column = {name: i for i, name in enumerate(names)}
    assert len(column) == len(names)
    plain = loop_features(task, configurations(task, copy=0, depth=1))
    copied = loop_features(task, configurations(task, copy=1, depth=1))
    inner = column["B/j.inner/length"]
    np.testing.assert_array_equal(plain[:, inner], copied[:, inner])
    loops_of_the_copy = [i for name, i in column.items() if name.startswith("A.local/")]
    assert loops_of_the_copy
    assert not plain[:, loops_of_the_copy].any()
    assert copied[:, loops_of_the_copy].any(axis=1).all()


def test_a_configuration_that_cannot_be_lowered_has_no_numbers_for_loops(task):
    bad = configurations(task, depth=1000)
    features = LoopFeatures(task)
    table = features.matrix(bad)
    knobs = len(raw_feature_names(task.config_space))
    assert np.isnan(table[:, :-knobs]).all()
    assert not np.isnan(table[:, -knobs:]).any()
    assert features.error(bad[0].index) == "InstantiationError: too deep"
    good = configurations(task, depth=2)[0]
    assert not np.isnan(features.matrix([good])).any()
    assert features.error(good.index) is None


def test_rows_are_computed_once(task):
    features = LoopFeatures(task)
    first = features.trees([0, 3, 4])
    before = len(runs)
    np.testing.assert_array_equal(first, features.trees(np.array([0, 3, 4])))
    assert len(runs) == before
    assert features.trees([]).shape == (0, first.shape[1])


def test_indices_and_configurations_name_the_same_rows(task):
    configs = [task.config_space.get(i) for i in (5, 0)]
    table = loop_features(task, configs)
    np.testing.assert_array_equal(table, loop_features(task, [5, 0]))
    np.testing.assert_array_equal(table, loop_features(task, task.config_space.indices(
        task.config_space.knobs([5, 0])
    )))  # fmt: skip


def test_curves_make_a_matrix_too(task):
    configs = configurations(task, copy=0, depth=1)
    table = loop_features(task, configs, kind="curve")
    curves = 2 * 4 * 20 * 2
    assert table.shape[1] == curves + len(raw_feature_names(task.config_space))
    expected = get_buffer_curve_sample_flatten(*task.instantiate(configs[1]), sample_n=20)
    np.testing.assert_array_equal(table[1, :curves], expected)


def test_another_shape_can_be_seen_in_the_same_columns(task):
    features = LoopFeatures(task)
    other = autotune.create("features_test/rows", (16, 30), "llvm")
    like = features.like(other)
    assert like.names == features.names
    config = configurations(other, copy=0, depth=1)[0]
    row = dict(zip(like.names, like.matrix([config])[0], strict=True))
    assert row["B/i/length"] == pytest.approx(np.log2(17))
    own = dict(zip(features.names, features.trees([0])[0], strict=True))
    assert own["B/i/length"] == pytest.approx(np.log2(9))


def test_a_template_that_never_lowers_still_gives_its_knobs():
    @autotune.template("features_test/never")
    def never(n):
        """Refuse everything."""
        autotune.get_config().define_knob("a", [1, 2, 3])
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
        if not isinstance(autotune.get_config(), ConfigSpace):
            raise KeyError("a mistake of the user")
        return te.create_schedule(b.op), [a, b]

    task = autotune.create("features_test/never", (4,), "llvm")
    np.testing.assert_array_equal(loop_features(task, [0, 2]), [[1], [3]])
    assert LoopFeatures(task).error(0) == "KeyError: 'a mistake of the user'"


def test_hand_written_kernels_have_no_loops_to_look_at():
    task = autotune.create("features_test/source", (8,), "llvm")
    with pytest.raises(TemplateError, match=r"features_test/source.*SourceKernel.*'knob'"):
        loop_features(task, [0])


def test_an_unknown_kind_is_refused(task):
    with pytest.raises(TunerError, match="itervar or curve; got 'knob'"):
        loop_features(task, [0], kind="knob")
