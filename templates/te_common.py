"""Pieces of schedules that several te templates use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune import te


def block_and_thread(stage: Any, axes: Sequence[tuple[Any, str]]) -> None:
    """Bind each axis of a stage to the thread axis of the given tag."""
    for axis, tag in axes:
        stage.bind(axis, te.thread_axis(tag))


def fetch_together(stage: Any, threads: Sequence[tuple[str, int]], vector: int = 1) -> None:
    """Let all threads of a block fill a shared stage: innermost ``vector`` elements at a time.

    ``threads`` lists thread tags with their extents, slowest first.
    """
    fused = stage.fuse(*stage.op.axis)
    if vector > 1:
        fused, lane = stage.split(fused, factor=vector)
        stage.vectorize(lane)
    for tag, extent in reversed(threads):
        fused, mine = stage.split(fused, factor=extent)
        stage.bind(mine, te.thread_axis(tag))


def unrolled(cfg: Any, stage: Any, axis: Any) -> None:
    """Let the tuner choose how far the loops inside ``axis`` are unrolled."""
    stage.pragma(axis, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    stage.pragma(axis, "unroll_explicit", cfg["unroll_explicit"].val)


def define_unroll(cfg: Any) -> None:
    """Declare the knobs that `unrolled` reads."""
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])


def untuned(cfg: Any, tiles: Mapping[str, Sequence[int]]) -> None:
    """Where nothing was tuned, split the named axes by the largest factors up to those given."""
    if cfg.is_fallback:
        for name, most in tiles.items():
            cfg.fallback_split(name, list(most))
