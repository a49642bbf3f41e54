"""Of two products of a part of rows the second is at work while the next part is worked on."""

import re
from dataclasses import replace

import numpy as np
import pytest

from autotune import driver
from autotune.auto_scheduler.search.analytical.online_warpgroups import OnlineWarpgroupCostModel
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.ir.stmt import seq
from autotune.lowering.passes.pipeline import _Pipeliner
from tests.auto_scheduler.running import assert_states_compute_the_same
from tests.auto_scheduler.search.test_several_products import attention
from tests.auto_scheduler.sketch.test_in_block import drawn
from tests.auto_scheduler.sketch.test_in_parts import in_parts, masked


def of_warpgroups(tensors, count, slots=2):
    """The task of a graph, and the program and row of parts of 64 by so many warpgroups."""
    task, models = in_parts(tensors, OnlineWarpgroupCostModel)
    (model,) = [each for each in models if each.extents[2] == 64]
    rows = drawn(model, 400)
    shape = model.shape(rows)
    fitting = (shape.tile_rows == 64 * count) & (shape.warps == 4 * count)
    return task, model, rows[fitting & (rows[:, model.pipeline] == slots)][0]


def source_of(task, model, row):
    """The text of its kernel, and how many threads a block has."""
    kernel = driver.kernel_of(task.realise(model.program.candidate(row)).what, task.target, "text")
    (call,) = kernel.calls
    return kernel.source, call.launch.block


@pytest.mark.parametrize("warpgroups", [1, 2])
def test_the_second_product_of_a_part_is_at_work_with_the_first_of_the_next(warpgroups):
    task, model, row = of_warpgroups(masked(length=256, depth=64), warpgroups)
    kernel = driver.kernel_of(task.realise(model.program.candidate(row)).what, task.target, "text")
    head, of_parts = re.findall(
        r"for \(int part = 0; part < (.*);.*\{\n((?: {4}.*\n)*)", kernel.source
    )[0]
    assert head == ("(block_x & 3)" if warpgroups == 1 else "(block_x & 1) * 2 + 1")
    names = r"wgmma_m\w+|wgmma_wait<\d>|wgmma_hold|exp2_flushed|warpgroup_turn<\d>|memcpy_async"
    seen = re.findall(names, of_parts)
    kinds = [each for i, each in enumerate(seen) if i == 0 or each != seen[i - 1]]
    begun = ["wgmma_m64n64k16_f16", "wgmma_m64n64k16_f16_passed"]
    # Two warpgroups take turns, and copy when theirs is over.
    took = ["warpgroup_turn<1>", *begun, "warpgroup_turn<2>", "memcpy_async"]
    first = took if warpgroups == 2 else ["memcpy_async", *begun]
    held = ["wgmma_hold"] if warpgroups == 2 else []
    powers = ["wgmma_wait<1>", "exp2_flushed", *held, "wgmma_wait<0>", "exp2_flushed"]
    assert kinds == [*first, *powers]
    # Who passed the last turn to nobody is met behind the loop.
    assert kernel.source.count("warpgroup_turn<0>()") == warpgroups - 1
    assert kernel.source.count("warpgroup_turn<3>()") == warpgroups - 1


@pytest.mark.many_cases
@pytest.mark.parametrize(("warpgroups", "slots"), [(1, 3), (2, 2)])
def test_products_that_overlap_compute_what_the_definition_says(warpgroups, slots, tmp_path):
    """Turns are emulated, too: a barrier of other threads, or that nobody ends, fails."""
    task, model, row = of_warpgroups(masked(length=256, depth=16), warpgroups, slots)
    assert "wgmma_wait<1>()" in source_of(task, model, row)[0]
    state = plain_state(task.compute_dag.init_state.dag)
    state = state.after(model.program.candidate(row).transform_steps)
    assert_states_compute_the_same(task.compute_dag, [state], "cuda", tmp_path, 1e-2, 1e-2)


def on_a_device(change, orders, folder):
    """How far a kernel in turns, as a device runs it, is from attention, with its text changed."""
    task, model, row = of_warpgroups(attention(1, 256, 64), 2, 3)
    candidate = task.realise(model.program.candidate(row))
    kernel = driver.kernel_of(candidate.what, task.target, "text")
    head, loop, of_parts = kernel.source.partition("for (int part = 0;")
    kernel = replace(kernel, source=head + loop + change(of_parts))
    library = compile_emulated(kernel, folder / "kernel.so", arch="sm_90", device_text=True)
    rng = np.random.default_rng(0)
    q, k, v = rng.uniform(-1, 1, (3, 1, 256, 64)).astype("float16")
    scores = np.exp(np.einsum("hid,hjd->hij", q, k, dtype="float64"))
    wanted = scores / scores.sum(-1, keepdims=True) @ v.astype("float64")
    for order in orders:
        got = np.full_like(q, np.nan)
        EmulatedKernel(library, kernel).run([q, k, v, got], order)
        yield abs(got - wanted).max()


@pytest.mark.many_cases
def test_products_as_a_device_runs_them_wait_for_all_they_need(tmp_path):
    assert max(on_a_device(lambda text: text, (0, 7), tmp_path)) < 1e-3


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("wgmma_wait<1>();", "which it has not waited for"),
        ("wgmma_wait<0>();", "which it has not waited for"),
        ("warpgroup_turn<1>();", "deadlock"),
        ("__syncthreads();", "with no barrier between"),
    ],
)
def test_what_they_wait_for_is_needed(left_out, said, tmp_path):
    def without(text):
        assert left_out in text
        return text.replace(left_out, "", 1)

    with pytest.raises(DeviceError, match=said):
        list(on_a_device(without, (0,), tmp_path))


def test_turns_are_of_the_256_threads_of_two_warpgroups():
    task, models = in_parts(attention(2, 768, 64), OnlineWarpgroupCostModel)
    seen = set()
    for model in models:
        rows = drawn(model, 400)
        shape = model.shape(rows)
        firsts = {}
        for row, *key in zip(
            rows, shape.warps, shape.tile_rows, rows[:, model.pipeline], strict=True
        ):
            firsts.setdefault(tuple(map(int, key)), row)
        for (warps, *_, slots), row in firsts.items():
            source, block = source_of(task, model, row)
            assert block == (4, 8, warps)
            is_ring = slots > 1
            assert ("wgmma_wait<1>()" in source) == is_ring
            turns = re.findall(r"warpgroup_turn<(\d)>\(\);", source)
            assert turns == (list("0123") if is_ring and warps == 8 else [])
            seen.add((warps, is_ring))
    assert seen >= {(4, True), (8, True), (12, True), (8, False)}


@pytest.mark.parametrize("keys", [65, 128])
def test_loops_of_two_parts_do_not_overlap(keys):
    tensors = attention(2, keys, 64)
    task, models = in_parts(tensors, OnlineWarpgroupCostModel)
    (model,) = [each for each in models if each.extents[2] == 64]
    rows = drawn(model, 100)
    source, _ = source_of(task, model, rows[rows[:, model.pipeline] > 1][0])
    assert "wgmma_wait<1>()" not in source


def test_what_both_products_read_is_not_filled_before_the_second_one(monkeypatch):
    task, model, row = of_warpgroups(masked(length=256, depth=64), 2)
    overlapped, found = _Pipeliner._overlapped, []

    def of_shared_rows(self, ring, fills, halves):
        both = replace(halves, second=seq(halves.second, halves.first))
        found.append((overlapped(self, ring, fills, halves), overlapped(self, ring, fills, both)))
        return found[-1][0]

    monkeypatch.setattr(_Pipeliner, "_overlapped", of_shared_rows)
    source_of(task, model, row)
    ((alone, shared),) = found
    assert alone is not None
    assert shared is None


@pytest.mark.parametrize("rows", [448, 320, 768])
def test_threads_of_a_block_have_the_registers_they_need(rows):
    """Assemblers refuse fewer registers than sums of one instruction need."""
    _, models = in_parts(attention(2, rows, 32), OnlineWarpgroupCostModel)
    for model in models:
        shape = model.shape(drawn(model, 400))
        assert (shape.registers * 32 * shape.warps <= 65536).all()
