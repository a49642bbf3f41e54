"""Marked products become `wgmma`: right in the emulator, compiled well, or refused."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from autotune import te
from autotune.codegen.source import kernel_of_schedule
from autotune.errors import LoweringError
from autotune.target import Target
from tests.fuzz.running import Job, run_batch
from tests.lowering.warpgroup_products import Tiles, definition, multiply, product, tile
from tests.templates.assembled import needs_nvcc, spilled
from tests.topi.evaluate import cut_to_tf32

HOPPER = Target("cuda -arch=sm_90")
CASES = {
    "plain": (Tiles(), {}),
    "columns along the reduction": (Tiles(columns=32, tall=2), {"transposed": (False, False)}),
    "rows across it": (Tiles(rows=64, depth=32, stages=2), {"transposed": (True, True)}),
    "both the other way": (
        Tiles(rows=64, stages=4),
        {"transposed": (True, False), "out": "float32"},
    ),
    "bfloat16, two panels": (
        Tiles(columns=128, depth=128, stages=2),
        {"dtype": "bfloat16", "out": "float32"},
    ),
    "three slots": (Tiles(tall=2, stages=3), {}),
    "wide stores": (Tiles(rows=64, columns=128, stages=2), {}),
    "wide stores of bfloat16, in turn": (
        Tiles(rows=64, columns=128, blocks=3),
        {"dtype": "bfloat16", "out": "bfloat16"},
    ),
    "in turn": (Tiles(rows=64, stages=4, blocks=3), {"out": "float32"}),
    "in turn, two slots, as many tiles": (Tiles(rows=64, stages=2, blocks=2), {}),
    "TF32 along the reduction": (
        Tiles(depth=32, stages=4),
        {"dtype": "tf32", "transposed": (False, False), "out": "float32"},
    ),
    "TF32 across it": (
        Tiles(rows=64, columns=32, depth=64, stages=2),
        {"dtype": "tf32", "transposed": (True, True), "out": "float32"},
    ),
    "TF32, the first from registers": (
        Tiles(depth=32, stages=4),
        {"dtype": "tf32", "transposed": (True, False), "out": "float32", "passed": True},
    ),
    "TF32, both across it, the first from registers": (
        Tiles(tall=2, depth=32, stages=2),
        {"dtype": "tf32", "transposed": (True, True), "out": "float32", "passed": True},
    ),
    "TF32, the first from registers, in turn": (
        Tiles(rows=64, depth=32, stages=4, blocks=3),
        {"dtype": "tf32", "transposed": (True, False), "out": "float32", "passed": True},
    ),
    "TF32, one instruction of a first from registers": (
        Tiles(rows=64, depth=8),
        {"dtype": "tf32", "transposed": (True, False), "out": "float32", "passed": True},
    ),
    "panels with half of their rows filled": (
        Tiles(rows=64, depth=32, stages=3),
        {"transposed": (False, False)},
    ),
    "two panels, of which one is": (Tiles(columns=96), {"size": (128, 192, 128)}),
    "TF32, half of a row": (
        Tiles(rows=64, depth=16, stages=2),
        {"dtype": "tf32", "transposed": (False, False), "out": "float32"},
    ),
}
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "tf32": np.float32}


def kernel_of(tiles, name="main", size=(128, 128, 256), target=HOPPER, **options):
    return kernel_of_schedule(*product(*size, tiles, **options), target, name)


def test_products_of_warpgroups_compute_what_numpy_does(tmp_path):
    rng, jobs, wanted = np.random.default_rng(0), [], []
    for i, (tiles, options) in enumerate(CASES.values()):
        kernel = kernel_of(tiles, f"k{i}", **options)
        dtype = options.get("dtype", "float16")
        transposed = options.get("transposed", (False, True))
        inputs = [each for each in kernel.args if each.role == "in"]
        a, b = (rng.uniform(-1, 1, each.shape).astype(TYPES[dtype]) for each in inputs)
        exact = [cut_to_tf32(x) if dtype == "tf32" else x for x in (a, b)]
        left, right = (x.astype(np.float64) for x in exact)
        wanted.append((left.T if transposed[0] else left) @ (right if transposed[1] else right.T))
        jobs.append(Job(kernel, [a, b], i))
        assert "wgmma_m64n" in kernel.source
    for name, got, right in zip(CASES, run_batch(jobs, tmp_path), wanted, strict=True):
        assert not isinstance(got, str), f"{name}: {got}"
        near = {2: 2e-2, 4: 1e-4}[got[0].itemsize] * (8 if "of bfloat16" in name else 1)
        np.testing.assert_allclose(got[0].astype(np.float64), right, atol=near, err_msg=name)


def test_products_are_compiled_for_hopper_and_for_nothing_else():
    assert kernel_of(Tiles()).flags == ("-arch=sm_90a",)
    assert kernel_of(Tiles(), target=Target("cuda -arch=sm_90a")).flags == ("-arch=sm_90a",)
    with pytest.raises(
        LoweringError, match=r"instructions are those of sm_90a, the target is sm_80"
    ):
        kernel_of(Tiles(), target=Target("cuda -arch=sm_80"))
    assert kernel_of(Tiles(), target=Target("cuda -arch=sm_80 -emulate=1")).flags


def test_operands_of_products_begin_at_multiples_of_eight_rows():
    small, large = kernel_of(Tiles(depth=64)), kernel_of(Tiles(stages=4))
    assert re.search(r"__shared__ __align__\(1024\) __half A_shared\[8192\]", small.source)
    assert "extern __shared__ __align__(1024) unsigned char" in large.source


def test_the_last_products_are_at_work_while_the_next_chunk_is_awaited():
    text = kernel_of(Tiles(stages=4)).source
    assert "wgmma_wait<1>();\n  }\n  wgmma_wait<0>();\n  wgmma_sums<" in text
    for stages in (0, 2, 3):
        body = kernel_of(Tiles(stages=stages)).source.partition("__global__")[2]
        assert "wgmma_wait<1>" not in body


def test_slots_are_filled_while_the_first_group_of_passed_products_is_at_work():
    """Without a branch; no copy of the last iterations may write its zeros later."""
    options = {"dtype": "tf32", "transposed": (True, False), "out": "float32", "passed": True}
    body = kernel_of(Tiles(depth=32, stages=4), **options).source.partition("__global__")[2]
    chunk = body[body.index("for (int k_outer_outer") : body.index("wgmma_sums<")]
    marks = ("wgmma_wait<1>", "A_shared[", "wgmma_commit", "copy_or_zero(", "__pipeline_commit")
    found = re.findall("|".join(map(re.escape, marks)), chunk)
    order = [each for i, each in enumerate(found) if i == 0 or each != found[i - 1]]
    assert order == [*marks, *marks[:3]]
    assert "if (" not in chunk
    assert chunk.rstrip().endswith("__pipeline_wait_prior(0);\n  wgmma_wait<0>();")


def test_threads_exchange_results_of_16_bits_and_store_16_bytes():
    wide = kernel_of(Tiles(columns=128)).source.partition("__global__")[2]
    assert wide.count("exchange_pairs_f16(") == 2
    assert wide.count("*(uint4*)(D + ") == 2
    assert "*(unsigned int*)(D + " not in wide
    assert "exchange_pairs" not in kernel_of(Tiles(columns=128), out="float32").source


def test_stores_are_shown_to_products_before_every_barrier():
    for stages in (0, 2, 4):
        body = kernel_of(Tiles(stages=stages)).source.partition("__global__")[2]
        barriers = [line.strip() for line in body.split("\n") if line.strip().endswith("();")]
        at = [i for i, line in enumerate(barriers) if line == "__syncthreads();"]
        assert at
        assert all(barriers[i - 1] == "wgmma_show();" for i in at)


@pytest.mark.parametrize(
    ("tiles", "options", "why"),
    [
        (Tiles(columns=512), {"size": (128, 512, 64)}, "at most 256 columns"),
        (Tiles(rows=32), {}, r"multiple of 4 along threadIdx.z, got \[4, 8, 2\]"),
    ],
    ids=["wide", "warps"],
)
def test_products_that_no_warpgroup_multiplies_are_refused(tiles, options, why):
    with pytest.raises(LoweringError, match=f"wgmma: D: .*{why}"):
        kernel_of(tiles, **options)


def test_a_mark_on_other_loops_is_refused():
    *inputs, c, d = definition(64, 64, 64)
    s = te.create_schedule(d.op)
    s[c].set_scope("local")
    rows, columns = d.op.axis
    s[d].bind(rows, te.thread_axis("blockIdx.x"))
    s[d].bind(columns, te.thread_axis("threadIdx.x"))
    s[c].compute_at(s[d], columns)
    s[c].pragma(c.op.reduce_axis[0], "wgmma", 1)
    with pytest.raises(LoweringError, match="wgmma: D: expected a loop of 16 steps"):
        kernel_of_schedule(s, [*inputs, d], HOPPER)


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize("dtype", ["float16", "tf32"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_products_are_not_serialized_and_sums_stay_in_registers(stages, dtype, tmp_path):
    depth = 32 if dtype == "tf32" else 64
    tiles = Tiles(rows=128, columns=256 if stages < 4 else 128, depth=depth, stages=stages)
    kernel = kernel_of(tiles, size=(4096, 4096, 4096), dtype=dtype)
    assert not any(spilled(kernel, tmp_path))


@needs_nvcc
@pytest.mark.parametrize(("tall", "columns", "stages"), [(1, 256, 4), (2, 128, 3), (2, 128, 4)])
def test_products_of_passed_floats_are_not_serialized(tall, columns, stages, tmp_path):
    tiles = Tiles(rows=128 * tall, columns=columns, depth=32, tall=tall, stages=stages)
    options = {"dtype": "tf32", "transposed": (True, False), "out": "float32", "passed": True}
    kernel = kernel_of(tiles, size=(4096, 4096, 4096), **options)
    assert kernel.source.count("_passed(C[") == 4 * tall
    assert not any(spilled(kernel, tmp_path))


def both(specs):
    """Schedule two products of one tile that one stage adds; specs are steps and slots of each."""
    stages = [(definition(128, 64, steps)[:3], Tiles(stages=slots)) for steps, slots in specs]
    (*_, first), (*_, second) = (each for each, _ in stages)
    out = te.compute((128, 64), lambda i, j: first[i, j] + second[i, j], name="D")
    s = te.create_schedule(out.op)
    place = tile(s[out], Tiles())
    for each, tiles in stages:
        multiply(s, each, out, place, tiles)
    return s, [*(x for (a, b, _), _ in stages for x in (a, b)), out]


# Of an odd number of chunks the last one uses the slot that the second product fills first.
TURNS = [((192, 2), (64, 2)), ((192, 4), (64, 3))]


def test_a_product_waits_for_all_threads_before_it_fills_what_it_takes_over(tmp_path):
    rng = np.random.default_rng(0)
    for i, specs in enumerate(TURNS):
        kernel = kernel_of_schedule(*both(specs), HOPPER, f"turns{i}")
        text, barrier = kernel.source, "__syncthreads();"
        done = text.index("wgmma_sums<", text.rindex("__global__"))
        at = text.index(barrier, done)
        loose = replace(kernel, source=text[:at] + text[at + len(barrier) :])
        inputs = [rng.uniform(-1, 1, x.shape).astype(np.float16) for x in kernel.inputs]
        a, b, c, d = (x.astype(np.float64) for x in inputs)
        # The emulator sees what products read only in optimized code.
        (found,) = run_batch([Job(kernel, inputs, i)], tmp_path, optimized=True)
        np.testing.assert_allclose(found[0], a @ b + c @ d, atol=1e-3)
        (found,) = run_batch([Job(loose, inputs, i)], tmp_path, optimized=True)
        assert "race on" in found
