"""Tiles of products on a CPU: how b is read, tiles that fit registers, tasks for all cores."""

import ctypes
import mmap
import platform
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from autotune.templates import cpu_tiles
from autotune.templates.cpu_tiles import VectorUnit
from autotune.templates.products import gemm_cpu
from autotune.templates.products.gemm_shape import Gemm

from autotune import Target
from autotune.driver import build
from autotune.runtime import cpu_instructions
from autotune.target import Limits
from autotune.task import ConfigEntity, create
from tests.templates.on_cpu import run_over_nan

FEW = {
    "rows": 4, "vectors": 2, "lanes": 4, "block_m": 16, "panels": 4, "depth": 16, "pack": 0,
    "split_k": 1,
}  # fmt: skip
# Panels and rows that nothing fills, one panel, blocks that share columns of b, one row.
FEW_ROWS = [
    (Gemm(16, 48, 64), {}),
    (Gemm(7, 29, 50), {"block_m": 4}),
    (Gemm(13, 9, 17), {"rows": 3, "depth": 8, "panels": 1}),
    (Gemm(37, 70, 33), {"rows": 6, "panels": 2}),
    (Gemm(1, 100, 7), {"rows": 1, "vectors": 4, "block_m": 1, "depth": 8}),
    (Gemm(1, 131, 29), {"rows": 1, "block_m": 1, "depth": 8}),
    (Gemm(1, 40, 16), {"rows": 1, "block_m": 1, "depth": 8, "panels": 8}),
    (Gemm(5, 16, 1), {"vectors": 1, "lanes": 16, "rows": 1, "panels": 1, "depth": 1}),
]


@pytest.mark.parametrize(("shape", "knobs"), FEW_ROWS)
def test_products_of_few_rows_read_b_where_it_lies(shape, knobs):
    choice = FEW | knobs
    assert gemm_cpu.violation(shape, choice, Target("llvm")) is None
    run_over_nan(shape, gemm_cpu, choice)


# Besides: rows of b that no group fills, several depths, tasks of one panel and of all.
STREAMED = [
    *(each for each in FEW_ROWS if each[0].m > 1),
    (Gemm(9, 64, 130), {"depth": 32, "panels": 8}),
    (Gemm(12, 41, 35), {"depth": 8, "panels": 2}),
    (Gemm(50, 33, 66), {"block_m": 32, "vectors": 1}),
]


@pytest.mark.parametrize(("shape", "knobs"), STREAMED)
def test_products_of_few_rows_pack_what_they_need_next(shape, knobs):
    choice = FEW | {"pack": 2} | knobs
    assert gemm_cpu.violation(shape, choice, Target("llvm")) is None
    run_over_nan(shape, gemm_cpu, choice)


# Besides: columns that whole vectors leave over and that they do not, and panels that are packed.
@pytest.mark.many_cases
@pytest.mark.parametrize(("shape", "knobs"), [*STREAMED, (Gemm(11, 44, 20), {"vectors": 3})])
@pytest.mark.parametrize("pack", [1, 4, 5])
def test_the_last_panel_is_as_wide_as_columns_are_left(shape, knobs, pack):
    choice = FEW | {"pack": pack} | knobs
    assert gemm_cpu.violation(shape, choice, Target("llvm")) is None
    run_over_nan(shape, gemm_cpu, choice)


# Parts of one length, with a shorter one, and fewer than asked for.
@pytest.mark.many_cases
@pytest.mark.parametrize(("split", "k"), [(2, 64), (3, 100), (8, 50)])
@pytest.mark.parametrize(("m", "pack"), [(1, 0), *((21, pack) for pack in range(6))])
def test_parts_of_sums_are_added(m, pack, split, k, monkeypatch):
    monkeypatch.setattr(cpu_tiles, "vector_unit", lambda _: VectorUnit(16, 32))
    shape = Gemm(m, 29, k)
    choice = FEW | {"pack": pack, "split_k": split, "rows": min(m, 4)}
    assert gemm_cpu.violation(shape, choice, Target("llvm")) is None
    run_over_nan(shape, gemm_cpu, choice)


@pytest.mark.parametrize("shape", [(50, 300, 4096), (1, 1000, 2048), (64, 64, 60000)])
def test_untuned_products_of_few_tasks_split_their_sums(shape):
    for cores, splits in ((1, {1}), (2, {2}), (16, {4, 8, 16})):
        target = SimpleNamespace(limits=Limits(sm_count=cores), attrs={})
        choice = gemm_cpu.default_choice(Gemm(*shape), target)
        assert choice["split_k"] in splits
        assert gemm_cpu.violation(Gemm(*shape), choice, target) is None
    square = SimpleNamespace(limits=Limits(sm_count=2), attrs={})
    assert gemm_cpu.default_choice(Gemm(512, 512, 512), square)["split_k"] == 1


def test_a_choice_of_before_sums_were_split_still_replays():
    task = create("gemm_nn.cpu", (20, 40, 600), "llvm")
    points = (task.config_space.get(i) for i in range(len(task.config_space)))
    config = next(each for each in points if each["split_k"].val == 1)
    row = config.to_json_dict()
    row["entity"] = [each for each in row["entity"] if each[0] != "split_k"]
    assert len(row["entity"]) == len(config.to_json_dict()["entity"]) - 1
    old, now = task.instantiate(ConfigEntity.from_json_dict(row)), task.instantiate(config)
    assert (old.source, old.defines, old.calls) == (now.source, now.defines, now.calls)


@pytest.mark.many_cases
@pytest.mark.parametrize("pack", range(7))
def test_rows_that_whole_tiles_leave_over_have_a_tile_of_their_own(pack):
    choice = FEW | {"rows": 5, "pack": pack}
    assert {"ROWS": "5", "ROWS_LEFT": "3"}.items() <= _defines(Gemm(13, 37, 35), choice).items()
    run_over_nan(Gemm(13, 37, 35), gemm_cpu, choice)


def _defines(shape, choice):
    return {name: str(value) for name, value in gemm_cpu.kernel(shape, choice).defines.items()}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86 CPUs")
@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
def test_parts_of_vectors_are_read_and_written_with_masks_and_without(cpu, lanes):
    shape = Gemm(5, 2 * lanes + 3, 20)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((5, 20), (20, shape.n)))
    kernel = gemm_cpu.kernel(shape, FEW | {"lanes": lanes, "pack": 4})
    with Target(f"llvm -mcpu={cpu}"):
        module = build(kernel, name="f")
    c = np.full((5, shape.n), np.nan, "float32")
    module(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("floats", [8, 16])
def test_untuned_products_of_few_rows_stay_in_place_or_are_packed_where_b_is_near(floats):
    target, packs = SimpleNamespace(limits=Limits(sm_count=2), attrs={}), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_tiles, "vector_unit", lambda _: VectorUnit(floats, 2 * floats))
        for m, n, k in ((16, 1000, 147), (16, 512, 512), (16, 768, 768), (129, 1000, 147)):
            choice = gemm_cpu.default_choice(Gemm(m, n, k), target)
            assert gemm_cpu.violation(Gemm(m, n, k), choice, target) is None
            packs[m, n] = choice["pack"]
    near, far = (4, 0) if floats == 16 else (5, 5)
    assert packs == {(16, 1000): near, (16, 512): near, (16, 768): far, (129, 1000): 5}


@pytest.mark.parametrize("m", [1, 3])
def test_nothing_beyond_the_end_of_b_is_read(m):
    # A multiple of 16 bytes: arrays that lie elsewhere are copied.
    shape, page = Gemm(m, 29, 20), mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert protect(start + page, page, 0) == 0
    b = np.frombuffer(memory, "float32", 29 * 20, page - 4 * 29 * 20).reshape(20, 29)
    rng = np.random.default_rng(0)
    b[:], a = rng.standard_normal((20, 29)), rng.standard_normal((m, 20)).astype("float32")
    for pack in (0, 1, 4, 5, 6) if m == 1 else (0, 1, 2, 4, 5, 6):
        c = np.full((m, 29), np.nan, "float32")
        with Target("llvm"):
            module = build(gemm_cpu.kernel(shape, FEW | {"rows": m, "pack": pack}), name="f")
        module(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cores", [1, 2, 16])
def test_untuned_products_pack_where_many_rows_use_what_is_packed(cores, monkeypatch):
    monkeypatch.setattr(cpu_tiles, "vector_unit", lambda _: VectorUnit(16, 32))
    target = SimpleNamespace(limits=Limits(sm_count=cores), attrs={})
    packs = {}
    for m in (1, 3, 16, 20, 64, 512):
        for n, k in ((4096, 4096), (1000, 512), (3, 70), (17, 1)):
            shape = Gemm(m, n, k)
            choice = gemm_cpu.default_choice(shape, target)
            assert gemm_cpu.violation(shape, choice, target) is None
            options = gemm_cpu.candidates(shape)
            assert options.keys() == choice.keys()
            assert all(choice[name] in options[name] for name in options)
            packs[m, n] = choice["pack"]
            tasks = -(-n // (choice["panels"] * choice["vectors"] * choice["lanes"]))
            tasks *= choice["split_k"]
            assert n < 4096 or 1.1 * tasks * -(-m // choice["block_m"]) >= cores
    assert packs[1, 4096] == packs[3, 1000] == 0
    assert packs[16, 4096] == packs[64, 4096] == 2
    # Of three columns none is a whole panel.
    assert packs[16, 3] in (4, 5)
    assert all(packs[512, n] in (3, 5) for n in (4096, 1000, 3, 17))


@pytest.mark.parametrize("shape", [Gemm(130, 300, 1000), Gemm(70, 1100, 400), Gemm(65, 520, 1030)])
def test_products_that_fetch_what_they_pack_next_give_the_right_sums(shape):
    choice = gemm_cpu.default_choice(shape, Target("llvm"))
    assert dict(gemm_cpu.kernel(shape, choice).defines)["FETCHED"] > 0
    run_over_nan(shape, gemm_cpu, choice, optimized=True)


# Registers, and whether sums are made of halves; rows, columns and depth; how b is read.
WAYS = [
    (VectorUnit(16, 32), (14, 768, 768), gemm_cpu.LIE),
    (VectorUnit(16, 32), (19, 768, 768), gemm_cpu.LIE),
    (VectorUnit(16, 32), (20, 768, 768), gemm_cpu.IN_PLACE),
    (VectorUnit(16, 32), (20, 1024, 768), gemm_cpu.STREAMED),
    (VectorUnit(16, 32), (40, 768, 768), gemm_cpu.IN_PLACE),
    (VectorUnit(16, 32), (45, 768, 768), gemm_cpu.ONE_BY_ONE),
    (VectorUnit(16, 32), (40, 3000, 2000), gemm_cpu.STREAMED),
    (VectorUnit(16, 32, True), (40, 768, 768), gemm_cpu.STREAMED),
    (VectorUnit(8, 16), (6, 768, 768), gemm_cpu.LIE),
    (VectorUnit(8, 16), (7, 1024, 768), gemm_cpu.LIE),
    (VectorUnit(8, 16), (14, 1024, 768), gemm_cpu.ONE_BY_ONE),
    (VectorUnit(16, 32), (8, 198, 1424), gemm_cpu.IN_PLACE),
    (VectorUnit(16, 32, True), (8, 198, 1424), gemm_cpu.LIE),
    (VectorUnit(8, 16), (40, 3000, 2000), gemm_cpu.STREAMED),
    (VectorUnit(8, 16), (545, 544, 544), gemm_cpu.ONE_BY_ONE),
    (VectorUnit(8, 16), (211, 2088, 16), gemm_cpu.BY_TILES),
    (VectorUnit(8, 16), (545, 1024, 544), gemm_cpu.ONE_BY_ONE),
    (VectorUnit(8, 16), (545, 544, 1024), gemm_cpu.BOTH),
    (VectorUnit(8, 16), (545, 29, 1024), gemm_cpu.ONE_BY_ONE),
    (VectorUnit(16, 32), (64, 2141, 696), gemm_cpu.STREAMED),
    (VectorUnit(8, 16), (2000, 1500, 1500), gemm_cpu.ONE_BY_ONE),
    (VectorUnit(16, 32), (195, 1071, 165), gemm_cpu.ONE_BY_ONE),
    (VectorUnit(16, 32), (195, 3071, 165), gemm_cpu.BY_TILES),
    (VectorUnit(16, 32), (545, 544, 544), gemm_cpu.BY_TILES),
]


@pytest.mark.parametrize(("unit", "extents", "way"), WAYS)
def test_untuned_products_read_b_once_or_pack_what_many_rows_share(
    unit, extents, way, monkeypatch
):
    monkeypatch.setattr(cpu_tiles, "vector_unit", lambda _: unit)
    target = SimpleNamespace(limits=Limits(sm_count=2), attrs={})
    choice = gemm_cpu.default_choice(Gemm(*extents), target)
    assert gemm_cpu.violation(Gemm(*extents), choice, target) is None
    assert choice["pack"] == way
    if way == gemm_cpu.LIE and extents[0] <= (14 if unit.floats > 8 else 6):
        assert choice["rows"] == extents[0]


def test_rows_of_a_are_copied_whole_and_added_in_order():
    # Rows of both matrices have the same offset in a page.
    shape = Gemm(45, 1024, 1024)
    choice = FEW | {"rows": 4, "block_m": 32, "depth": 256, "pack": gemm_cpu.BOTH}
    run_over_nan(shape, gemm_cpu, choice, optimized=True)


def test_parts_of_a_sum_are_of_one_size():
    def depth(k, most, split=1):
        return int(
            _defines(Gemm(40, 80, k), FEW | {"pack": 3, "depth": most, "split_k": split})["DEPTH"]
        )

    assert [depth(k, 256) for k in (260, 256, 200, 513, 20)] == [144, 256, 208, 176, 32]
    assert depth(520, 256, split=2) == 144
    assert depth(70, 8) == 8


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the machine code of x86")
@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_a_step_loads_each_vector_once_where_a_tile_has_more_than_16_registers(rows, tmp_path):
    choice = FEW | {"rows": rows, "vectors": 4, "lanes": 16, "depth": 512, "pack": 4}
    kernel = gemm_cpu.kernel(Gemm(rows, 128, 512), choice)
    (tmp_path / "f.c").write_text(kernel.text())
    flags = ["-O3", "-march=x86-64-v4", "-S", "-o", "f.s", "f.c"]
    subprocess.run(["cc", *flags], cwd=tmp_path, check=True)
    lines = (tmp_path / "f.s").read_text().splitlines()
    sums = [i for i, line in enumerate(lines) if "vfmadd231ps" in line]
    assert len(sums) == 4 * rows
    loads = [line for line in lines[sums[0] - 12 : sums[-1]] if "vmovups" in line]
    assert len(loads) == 4


@pytest.mark.parametrize("rows", [5, 6, 7])
def test_untuned_rows_of_one_block_are_not_parted(rows):
    choice = gemm_cpu.default_choice(Gemm(rows, 640, 192), Target("llvm -mcpu=x86-64-v3"))
    assert -(-choice["block_m"] // choice["rows"]) * choice["rows"] >= rows


@pytest.mark.many_cases
@pytest.mark.parametrize("steps", [3, 4, 15, 16])
def test_untuned_products_of_few_steps_take_them_at_once(steps):
    shape = Gemm(100, 90, steps)
    choice = gemm_cpu.default_choice(shape, Target("llvm"))
    assert choice["depth"] >= steps
    run_over_nan(shape, gemm_cpu, choice, optimized=True)


def test_a_tile_fits_the_registers_of_the_machine():
    for floats, registers in ((8, 16), (16, 32), (4, 32)):
        unit = VectorUnit(floats, registers)
        for rows, columns in ((512, 49), (64, 3136), (1, 1), (16, 4096), (3, 5)):
            high, vectors, lanes = cpu_tiles.tile(unit, rows, columns, tails=True)
            assert lanes <= floats
            assert high <= rows
            assert (high + 1) * vectors + 1 <= registers
        assert unit.spills(14, 4, floats)
        assert unit.spills(6, 4, floats) == (registers < 32)


def test_the_last_core_is_done_when_tasks_are_taken_by_their_size():
    # Two whole panels and one of two thirds: one core has two of them.
    assert cpu_tiles.makespan(2, [(3, 2), (2, 1)]) == 5
    assert cpu_tiles.makespan(2, [(2, 1), (3, 3)]) == 6
    assert cpu_tiles.makespan(4, [(1, 1)]) == 1
    assert cpu_tiles.makespan(1, [(5, 7), (2, 3)]) == 41


@pytest.mark.parametrize("images", [1, 3])
def test_untuned_tasks_of_odd_sizes_leave_no_core_waiting(images):
    target, rows, columns, width = SimpleNamespace(limits=Limits(sm_count=2)), 511, 513, 48
    block, panels = cpu_tiles.tasks(
        target, (128, 256, 512), (1, 2, 4, 8), (rows, columns), width, lambda *_: 0.0, images
    )
    blocks = [min(block, rows - m) for m in range(0, rows, block)]
    spans = [min(panels * width, columns - n) for n in range(0, columns, panels * width)]
    sizes = [(high * wide, images) for high in blocks for wide in spans]
    assert cpu_tiles.makespan(2, sizes) <= 1.02 * images * rows * columns / 2


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86 CPUs")
def test_a_target_that_names_a_cpu_gets_tiles_for_its_registers():
    for named in ("haswell", "x86-64-v3", "x86-64"):
        target = Target(f"llvm -mcpu={named}")
        assert cpu_tiles.vector_unit(target) == VectorUnit(8, 16)
        assert gemm_cpu.default_choice(Gemm(512, 512, 512), target)["lanes"] == 8
    here = Target("llvm -mcpu=native")
    assert cpu_tiles.vector_unit(here) == cpu_tiles.vector_unit(Target("llvm"))
    assert ("AVX512F" in cpu_instructions(here)) == (cpu_tiles.vector_unit(here).floats == 16)


@pytest.mark.parametrize("unit", [VectorUnit(16, 32), VectorUnit(8, 16), VectorUnit(4, 32)])
def test_untuned_tiles_of_filters_are_in_the_space_however_many_there_are(unit):
    for filters in range(1, 140):
        _, vectors, lanes = cpu_tiles.line_tile(unit, 10, filters, 396, cpu_tiles.ROWS)
        assert vectors * lanes < filters + lanes
