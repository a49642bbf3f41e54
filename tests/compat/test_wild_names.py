"""Names of TVM that scripts of others call, and what they do here."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import ExpressionError
from autotune.tvm import autotvm, te, topi
from autotune.tvm.topi.nn.bitserial_util import binary_op_multiplier, bitpack
from tests.topi.evaluate import evaluate


def test_an_analyzer_knows_the_ranges_it_was_told():
    i, n = te.var("i"), te.var("n")
    analyzer = tvm.arith.Analyzer()
    assert not analyzer.can_prove(i < 8)
    analyzer.bind(i, tvm.ir.Range(0, 8))
    assert analyzer.can_prove(i < 8)
    assert not analyzer.can_prove(i < 7)
    bound = analyzer.const_int_bound(2 * i + 1)
    assert (bound.min_value, bound.max_value) == (1, 15)
    assert analyzer.const_int_bound(n).max_value == bound.POS_INF
    analyzer.bind(n, 3)
    assert analyzer.simplify(n + 4).value == 7
    assert analyzer.can_prove_equal(i + n - 3, i)


@pytest.mark.parametrize(
    "range_", [tvm.ir.Range(2, 5), tvm.ir.Range.from_min_extent(2, 3)], ids=["ends", "extent"]
)
def test_a_range_ends_where_it_is_said_to_end(range_):
    a = te.placeholder((6,), name="A")
    k = te.reduce_axis(range_, name="k")
    total = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="total")
    (found,) = evaluate(total, {a: np.arange(6, dtype="float32")})
    assert found == 2 + 3 + 4
    assert isinstance(total.op.reduce_axis[0].dom, tvm.ir.Range)
    assert tvm.ir.Range(3).extent.value == 3


def test_an_analyzer_makes_plain_numbers_constants():
    found = tvm.arith.Analyzer().simplify(3 + 4)
    assert isinstance(found, tvm.tir.IntImm)
    assert found.value == 7


def test_an_analyzer_refuses_what_is_no_variable():
    with pytest.raises(ExpressionError, match="var must be a variable, got 3"):
        tvm.arith.Analyzer().bind(3, 4)
    with pytest.raises(ExpressionError, match="the range must be constant"):
        tvm.arith.Analyzer().bind(te.var("i"), tvm.ir.Range(0, te.var("n")))


def test_no_extent_is_any():
    A = te.placeholder((4, te.var("n")), name="A")
    assert not any(isinstance(extent, tvm.tir.Any) for extent in A.shape)
    assert tvm.tir.expr.Any is tvm.tir.Any


def test_ir_has_the_names_that_scripts_import():
    assert tvm.ir.transform.PassContext is tvm.transform.PassContext
    assert tvm.ir.IRModule is tvm.IRModule
    with tvm.ir.transform.PassContext(opt_level=3, disabled_pass=["tir.UnrollLoop"]):
        pass


@pytest.mark.parametrize(
    ("padding", "sides"), [(2, (2, 2)), ((1, 3), (1, 3)), ("VALID", (0, 0)), ("SAME", (2, 1))]
)
def test_a_padding_of_one_dimension_has_two_sides(padding, sides):
    assert topi.nn.utils.get_pad_tuple1d(padding, (4,)) == sides
    assert topi.nn.util.get_pad_tuple1d is topi.nn.get_pad_tuple1d


def test_a_padding_of_one_dimension_has_no_three_sides():
    with pytest.raises(ExpressionError, match="1 or 2 of them"):
        topi.nn.get_pad_tuple1d((1, 2, 3), (3,))


@pytest.mark.parametrize("pack_type", ["uint8", "uint32"])
def test_bits_of_neighbours_share_a_word(pack_type):
    width = binary_op_multiplier(pack_type)
    data = np.random.default_rng(0).integers(0, 4, (3, 2 * width)).astype("int32")
    A = te.placeholder(data.shape, "int32", name="A")
    packed = evaluate(bitpack(A, 2, 1, 1, pack_type), {A: data})
    assert packed.shape == (3, 2, 2)
    assert packed.dtype == pack_type
    for bit in range(2):
        words = ((data >> bit) & 1).reshape(3, 2, width)
        values = (words.astype("uint64") << np.arange(width - 1, -1, -1, dtype="uint64")).sum(-1)
        np.testing.assert_array_equal(packed[:, bit], values.astype(pack_type))


def test_bits_are_not_packed_across_rows():
    A = te.placeholder((3, 10), "int32", name="A")
    with pytest.raises(ExpressionError, match="a multiple of 8"):
        bitpack(A, 1, 1, 1, "uint8")


@autotvm.template("wild/fused")
def fused(n):
    """Sum rows; the order of loops decides whether the outer two can be fused."""
    A = te.placeholder((n, n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute((n, n), lambda i, j: te.sum(A[i, j, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    cfg = autotvm.get_config()
    cfg.define_reorder("order", [k, j], "all")
    order = cfg["order"].apply(s, B, [s[B].op.reduce_axis[0], j])
    cfg.define_knob("unroll", [0, 1])
    s[B].parallel(s[B].fuse(i, order[0]))
    if cfg["unroll"].val:
        s[B].unroll(order[1])
    return s, [A, B]


def test_a_space_is_found_though_its_first_point_is_impossible():
    task = autotvm.task.create("wild/fused", args=(8,), target="llvm")
    assert list(task.config_space.space_map) == ["order", "unroll"]
    assert task.config_space["order"].perm == (0, 1), "afterwards the first value, as before"
    result = autotvm.tuner.GridSearchTuner(task).tune(
        4, autotvm.measure_option("local", autotvm.LocalRunner(number=1)), finalists=0
    )
    assert result.trials == 2
    assert not result.failures


def test_a_schedule_that_no_point_makes_possible_is_an_error():
    @autotvm.template("wild/never")
    def never(n):
        autotvm.get_config().define_knob("x", [1, 2])
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i], name="B")
        s = te.create_schedule(B.op)
        s[B].split(s[B].op.axis[0], 0)
        return s, [A, B]

    with pytest.raises(tvm.TVMError, match="split"):
        autotvm.task.create("wild/never", args=(8,), target="llvm")


@autotvm.register_topi_compute("wild/candidates")
def candidates(cfg, A):
    (n,) = topi.utils.get_const_tuple(A.shape)
    axis = cfg.axis(n)
    (ao, ai), (bo, bi) = (cfg.define_split(name, axis, num_outputs=2) for name in "ab")
    cfg.define_reorder("order", [ao, bo, ai, bi], "candidate", candidate=[[bo, ao, bi, ai]])
    return te.compute((n,), lambda i: A[i] + 1.0, name="B")


@autotvm.register_topi_schedule("wild/candidates")
def schedule_candidates(cfg, outs):
    s = te.create_schedule(outs[0].op)
    cfg["a"].apply(s, outs[0], s[outs[0]].op.axis[0])
    return s


def test_a_record_is_replayed_whose_order_is_one_of_candidates(tmp_path, caplog):
    A = te.placeholder((16,), name="A")
    task = autotvm.task.create("wild/candidates", args=(A,), target="llvm")
    log = str(tmp_path / "x.log")
    autotvm.tuner.RandomTuner(task, seed=0).tune(
        2,
        autotvm.measure_option("local", autotvm.LocalRunner(number=1)),
        callbacks=[autotvm.callback.log_to_file(log)],
    )
    with autotvm.apply_history_best(log) as history, tvm.target.Target("llvm"):
        best = history.query(task.target, task.workload)
        s = schedule_candidates([candidates(A)])
    assert s is not None
    assert not best.is_fallback
    assert "Cannot find config" not in caplog.text


def test_each_line_of_a_log_is_a_record(tmp_path):
    task = autotvm.task.create("wild/fused", args=(8,), target="llvm")
    log = tmp_path / "x.log"
    autotvm.tuner.GridSearchTuner(task).tune(
        2,
        autotvm.measure_option("local", autotvm.LocalRunner(number=1)),
        callbacks=[autotvm.callback.log_to_file(str(log))],
    )
    pairs = [autotvm.record.decode(line, "json") for line in log.read_text().splitlines()]
    assert len(pairs) >= 2
    assert all(result.error_no == 0 for _, result in pairs)
    raced = [inp.config.index for inp, result in pairs if result.evidence.race is not None]
    best = autotvm.apply_history_best(str(log)).query(task.target, task.workload)
    assert not raced or best.index == raced[-1]


def test_a_record_of_version_0_1_knows_the_form_of_its_template(tmp_path):
    log = tmp_path / "old.log"
    log.write_text(
        '{"i": ["llvm", "wild/fused", [8], {}, ["wild/fused", 8], {"i": 1, "t": "direct", '
        '"c": null, "e": [["order", "re", [1, 0]], ["unroll", "ot", 0]]}], '
        '"r": [[0.001], 0, 1.5, 1535423916.7], "v": 0.1}\n'
    )
    ((inp, result),) = autotvm.record.load_from_file(str(log))
    assert inp.config.template_key == "direct"
    assert result.costs == (0.001,)
    key = inp.config.template_key
    task = autotvm.task.create(inp.task.name, inp.task.args, inp.target, template_key=key)
    assert task.config_space.get(0).template_key is None


def test_limits_of_a_gpu_are_verified_for_a_lowered_function():
    from autotune.tvm.tir.analysis import verify_gpu_code

    A = te.placeholder((256,), name="A")
    B = te.compute((256,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(s[B].op.axis[0], 64)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    main = tvm.lower(s, [A, B])["main"]
    assert verify_gpu_code(main, {"max_threads_per_block": 64, "max_shared_memory_per_block": 0})
    assert not verify_gpu_code(main, {"max_thread_x": 32})
    assert not verify_gpu_code(main, {"max_kernels": 0})
    with pytest.raises(tvm.TVMError, match="constraints must be"):
        verify_gpu_code(main, {"max_warps": 1})
    with pytest.raises(tvm.TVMError, match=r"what tvm\.lower returns"):
        verify_gpu_code(s, {})


def test_a_schedule_may_set_a_knob_where_nothing_was_tuned():
    config = autotvm.task.space.FallbackConfigEntity()
    config.define_knob("unroll", [0, 1])
    config["unroll"].val = 1
    assert config["unroll"].val == 1
    assert config["unroll"] == autotvm.task.space.OtherOptionEntity(1)
    config.define_knob("unroll", [0, 1])
    assert config["unroll"].val == 1
    again = autotvm.task.space.FallbackConfigEntity()
    again.define_knob("unroll", [0, 1])
    assert again["unroll"].val == 0, "one configuration's value is its own"
    space = autotvm.task.space.ConfigSpace()
    space.define_knob("unroll", [0, 1])
    with pytest.raises(AttributeError):
        space["unroll"].val = 1


def test_tasks_are_found_though_all_inputs_have_numbers():
    relay = tvm.relay
    data, weight = relay.var("data", shape=(1, 4, 8, 8)), relay.var("w", shape=(8, 4, 3, 3))
    mod = tvm.IRModule.from_expr(relay.nn.conv2d(data, weight))
    numbers = {v.name_hint: np.zeros(v.checked_type.concrete_shape) for v in mod["main"].params}
    tasks = autotvm.task.extract_from_program(mod["main"], numbers, "llvm")
    only = autotvm.task.extract_from_program(mod["main"], {"w": numbers["w"]}, "llvm")
    assert [task.workload for task in tasks] == [task.workload for task in only] != []


def test_inputs_of_a_log_are_measured_again(tmp_path):
    from autotune.tvm import auto_scheduler

    @auto_scheduler.register_workload
    def wild_scale(n):
        A = te.placeholder((n,), name="A")
        return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]

    first, second = str(tmp_path / "a.json"), str(tmp_path / "b.json")
    task = auto_scheduler.SearchTask(func=wild_scale, args=(64,), target="llvm")
    callbacks = [auto_scheduler.RecordToFile(first)]
    task.tune(auto_scheduler.TuningOptions(num_measure_trials=2, measure_callbacks=callbacks))
    inputs, _ = auto_scheduler.RecordReader(first).read_lines()
    measurer = auto_scheduler.measure.ProgramMeasurer(
        "local", "local", [auto_scheduler.RecordToFile(second)], verbose=0
    )
    again = [auto_scheduler.MeasureInput(task, each.state) for each in inputs]
    results = measurer.measure(task, auto_scheduler.EmptyPolicy(task), again)
    measurer.close()
    assert [each.error_no for each in results] == [0] * len(inputs)
    assert len(auto_scheduler.RecordReader(second).read_lines()[0]) == len(inputs)
