"""Softmax over rows as tensor expressions, for CUDA and the CPU."""

from __future__ import annotations

from functools import partial

from autotune import get_config, te, topi

from . import te_common
from .arguments import template
from .te_common import Scheduled
from .te_limits import Block, Point, keep_possible


def _stages(rows: int, columns: int) -> tuple[te.Tensor, ...]:
    """Return data, maximum, powers, their sum, and the result."""
    data = te.placeholder((rows, columns), name="data")
    out = topi.nn.softmax(data)
    powers, total = out.op.input_tensors
    return data, powers.op.input_tensors[1], powers, total, out


def _block_of(columns: int, c: Point) -> Block:
    """Return what a block of `softmax_cuda` takes; each warp has a maximum and a sum."""
    threads, kept = c["threads"].val, c["keep_powers"].val
    return Block(threads, deep=1, sums=2, shared_bytes=4 * columns * kept + threads // 4 + 32)


@template("te/softmax.cuda")
def softmax_cuda(rows: int, columns: int) -> Scheduled:
    """Softmax of each row; a block a row, whose threads reduce together."""
    data, highest, powers, total, out = _stages(rows, columns)
    s = te.create_schedule([out.op])
    cfg = get_config()
    cfg.define_knob("threads", [t for t in (32, 64, 128, 256, 512) if t < 2 * columns] or [32])
    cfg.define_knob("keep_powers", [0, 1])
    keep_possible(cfg, partial(_block_of, columns))
    count = cfg["threads"].val

    thread = te.thread_axis((0, count), "threadIdx.x")
    row, column = s[out].op.axis
    s[out].bind(row, te.thread_axis("blockIdx.x"))
    _, inner = s[out].split(column, factor=count)
    s[out].bind(inner, thread)
    for stage in (highest, total):
        s[stage].compute_at(s[out], row)
        s[stage].set_scope("shared")
        _, inner = s[stage].split(s[stage].op.reduce_axis[0], factor=count)
        s[stage].bind(inner, thread)
    if cfg["keep_powers"].val:
        s[powers].compute_at(s[out], row)
        s[powers].set_scope("shared")
        _, inner = s[powers].split(s[powers].op.axis[1], factor=count)
        s[powers].bind(inner, thread)
    else:
        s[powers].compute_inline()
    return s, [data, out]


@template("te/softmax.cpu")
def softmax_cpu(rows: int, columns: int) -> Scheduled:
    """Softmax of each row; rows in parallel, powers kept for one row."""
    data, highest, powers, total, out = _stages(rows, columns)
    s = te.create_schedule([out.op])
    cfg = get_config()
    te_common.define_tile(cfg, "task", s[out].op.axis[0], (-1, 4), max_factor=64)
    te_common.define_tile(cfg, "lanes", s[out].op.axis[1], (-1, 8), max_factor=16)

    outer, row = cfg["task"].apply(s, out, s[out].op.axis[0])
    s[out].parallel(outer)
    for stage in (highest, powers, total):
        s[stage].compute_at(s[out], row)
    for stage in (powers, out):
        _, lane = cfg["lanes"].apply(s, stage, s[stage].op.axis[1])
        s[stage].vectorize(lane)
    return s, [data, out]
