"""Scripts in the manner of AutoTVM's tutorials run with only their import lines changed."""

import logging

import numpy as np

import autotune as autotvm
from autotune import tvm
from autotune.topi.testing import conv2d_nchw_python
from autotune.tvm import te, topi

PRINTED = """\
ConfigSpace (len=10454400, range_length=10454400, space_map=
   0 tile_f: Split(policy=factors, product=512, num_outputs=4) len=220
   1 tile_y: Split(policy=factors, product=7, num_outputs=4) len=4
   2 tile_x: Split(policy=factors, product=7, num_outputs=4) len=4
   3 tile_rc: Split(policy=factors, product=512, num_outputs=3) len=55
   4 tile_ry: Split(policy=factors, product=3, num_outputs=3) len=3
   5 tile_rx: Split(policy=factors, product=3, num_outputs=3) len=3
   6 auto_unroll_max_step: OtherOption([0, 512, 1500]) len=3
   7 unroll_explicit: OtherOption([0, 1]) len=2
)"""


@autotvm.template("tests/conv2d_no_batching")
def conv2d_no_batching(N, H, W, CO, CI, KH, KW, stride, padding):
    assert N == 1
    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    s = te.create_schedule([conv.op])

    n, f, y, x = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis
    cfg = autotvm.get_config()
    for name, axis, parts in (
        ("tile_f", f, 4), ("tile_y", y, 4), ("tile_x", x, 4),
        ("tile_rc", rc, 3), ("tile_ry", ry, 3), ("tile_rx", rx, 3),
    ):  # fmt: skip
        cfg.define_split(name, axis, num_outputs=parts)
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])

    pad_data = s[conv].op.input_tensors[0]
    s[pad_data].compute_inline()
    data, raw_data = pad_data, data
    output = conv
    OL = s.cache_write(conv, "local")
    AA = s.cache_read(data, "shared", [OL])
    WW = s.cache_read(kernel, "shared", [OL])
    AL = s.cache_read(AA, "local", [OL])
    WL = s.cache_read(WW, "local", [OL])

    n, f, y, x = s[output].op.axis
    bf, vf, tf, fi = cfg["tile_f"].apply(s, output, f)
    by, vy, ty, yi = cfg["tile_y"].apply(s, output, y)
    bx, vx, tx, xi = cfg["tile_x"].apply(s, output, x)
    for axes, tag in (((bf, by, bx), "blockIdx"), ((tf, ty, tx), "threadIdx")):
        for axis, letter in zip(axes, "zyx", strict=True):
            s[output].bind(axis, te.thread_axis(f"{tag}.{letter}"))
    for axis in (vf, vy, vx):
        s[output].bind(axis, te.thread_axis("vthread"))
    s[output].reorder(n, bf, by, bx, vf, vy, vx, tf, ty, tx, fi, yi, xi)
    s[OL].compute_at(s[output], tx)

    ni, fi, yi, xi = s[OL].op.axis
    rc, ry, rx = s[OL].op.reduce_axis
    rco, rcm, rci = cfg["tile_rc"].apply(s, OL, rc)
    # The two knobs are exchanged in the original, too: both axes have extent 3.
    ryo, rym, ryi = cfg["tile_rx"].apply(s, OL, ry)
    rxo, rxm, rxi = cfg["tile_ry"].apply(s, OL, rx)
    s[OL].reorder(rco, ryo, rxo, rcm, rym, rxm, rci, ryi, rxi, ni, fi, yi, xi)
    for stage, axis in ((AA, rxo), (WW, rxo), (AL, rxm), (WL, rxm)):
        s[stage].compute_at(s[OL], axis)

    for load in [AA, WW]:
        fused = s[load].fuse(*s[load].op.axis)
        for knob, letter in (("tile_f", "z"), ("tile_y", "y"), ("tile_x", "x")):
            mine, fused = s[load].split(fused, nparts=cfg[knob].size[2])
            s[load].bind(mine, te.thread_axis(f"threadIdx.{letter}"))
    s[output].pragma(n, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[output].pragma(n, "unroll_explicit", cfg["unroll_explicit"].val)
    return s, [raw_data, kernel, conv]


@autotvm.template("tests/matmul")
def matmul(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


def test_the_space_of_the_convolution_prints_as_it_always_did():
    args = (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))
    task = autotvm.task.create("tests/conv2d_no_batching", args=args, target="cuda")
    assert str(task.config_space) == PRINTED
    assert len(task.config_space) == 10454400
    assert task.flop == 231501312  # the 36.63 GFLOPS of the tutorial's first trial, by 6.32 ms
    config = task.config_space.get(7166780)
    assert str(config).startswith("[('tile_f', [-1, 32, 1, 2]), ('tile_y', [-1, 1, 1, 1])")


def tuned(task, log, trials, logger):
    """Tune as the tutorials do; return the best configuration, which the final race chose."""
    logger.setLevel(logging.DEBUG)
    measure_option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=60, n_parallel=2),
        runner=autotvm.LocalRunner(number=1, repeat=1, min_repeat_ms=0, timeout=60),
    )
    tuner = autotvm.tuner.XGBTuner(task, seed=0)
    tuner.tune(
        n_trial=trials,
        measure_option=measure_option,
        callbacks=[autotvm.callback.log_to_file(str(log))],
    )
    records = list(autotvm.record.load_from_file(str(log)))
    assert len(records) == trials
    good = [(inp, res) for inp, res in records if res.error_no == 0]
    assert len(good) >= trials // 2
    assert tuner.best_config.index in {inp.config.index for inp, _ in good}
    return tuner.best_config


def test_convolution_tutorial(tmp_path):
    N, H, W, CO, CI, KH, KW, strides, padding = 1, 5, 5, 8, 4, 3, 3, (1, 1), (1, 1)
    args = (N, H, W, CO, CI, KH, KW, strides, padding)
    task = autotvm.task.create("tests/conv2d_no_batching", args=args, target="cuda -emulate")
    log = tmp_path / "conv2d.log"
    best = tuned(task, log, 8, logging.getLogger("autotvm"))

    dispatch_context = autotvm.apply_history_best(str(log))
    best_config = dispatch_context.query(task.target, task.workload)
    assert best_config.index == best.index
    with autotvm.apply_history_best(str(log)), tvm.target.Target("cuda -emulate"):
        s, arg_bufs = conv2d_no_batching(*args)
        func = tvm.build(s, arg_bufs)

    rng = np.random.default_rng(0)
    a_np = rng.uniform(size=(N, CI, H, W)).astype(np.float32)
    w_np = rng.uniform(size=(CO, CI, KH, KW)).astype(np.float32)
    c_np = conv2d_nchw_python(a_np, w_np, strides, padding)
    c_tvm = tvm.nd.empty(c_np.shape)
    func(tvm.nd.array(a_np), tvm.nd.array(w_np), c_tvm)
    tvm.testing.assert_allclose(c_np, c_tvm.numpy(), rtol=1e-2)


def test_matmul_tutorial(tmp_path):
    N, L, M = 64, 48, 32
    task = autotvm.task.create("tests/matmul", args=(N, L, M, "float32"), target="llvm")
    log = tmp_path / "matmul.log"
    tuned(task, log, 8, logging.getLogger("autotvm"))
    with autotvm.apply_history_best(str(log)), tvm.target.Target("llvm"):
        s, arg_bufs = matmul(N, L, M, "float32")
        func = tvm.build(s, arg_bufs)
    rng = np.random.default_rng(0)
    a_np = rng.uniform(size=(N, L)).astype(np.float32)
    b_np = rng.uniform(size=(L, M)).astype(np.float32)
    c_tvm = tvm.nd.empty((N, M))
    func(tvm.nd.array(a_np), tvm.nd.array(b_np), c_tvm)
    tvm.testing.assert_allclose(a_np.dot(b_np), c_tvm.numpy(), rtol=1e-4)
    evaluator = func.time_evaluator(func.entry_name, tvm.cpu(0), number=2)
    assert evaluator(tvm.nd.array(a_np), tvm.nd.array(b_np), c_tvm).mean > 0
