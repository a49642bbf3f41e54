"""Products of few rows of 8-bit integers: operands, ranges of the sum, choices."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.products import gemm_int8, gemm_skinny_int8
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import run_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90a")
CHOICE = {"vec": 4, "strips": 1, "ranges": 2, "split": 1, "ahead": 1, "frags_m": 2}
# Extents reach into strips of 8 times the columns of a lane, and into steps of 64.
PRODUCTS = {
    "one row, [k, n]": (Gemm(1, 72, 80, "int8"), {"vec": 8, "ranges": 1}),
    "[k, n]": (Gemm(20, 136, 208, "int8"), {"vec": 8, "strips": 2, "ahead": 2}),
    "[k, n], four columns a lane": (Gemm(9, 68, 144, "int8"), {"strips": 2, "ahead": 3}),
    "more rows than two fragments": (Gemm(37, 136, 144, "int8"), {"vec": 8}),
    "four fragments": (Gemm(37, 136, 144, "int8"), {"frags_m": 4}),
    "[n, k]": (Gemm(20, 136, 208, "int8", transpose_b=True), {"vec": 8, "strips": 2}),
    "an odd number of columns, [n, k]": (Gemm(5, 71, 80, "int8", transpose_b=True), {}),
    "an odd number of steps": (Gemm(16, 64, 640, "int8"), {"vec": 8, "ranges": 4}),
    "ranges without a step": (Gemm(16, 64, 320, "int8", transpose_b=True), {"ranges": 4}),
    "rows of 8 bytes": (Gemm(20, 136, 88, "int8"), {"vec": 8}),
    "rows of 4 bytes": (Gemm(9, 33, 84, "int8", transpose_b=True), {}),
    "a as [k, m], an odd k": (Gemm(36, 68, 93, "int8", transpose_a=True), {}),
    "a as [k, m], four fragments": (
        Gemm(48, 64, 200, "int8", transpose_a=True), {"frags_m": 4, "vec": 8},
    ),
    "a as [k, m], b as [n, k]": (
        Gemm(12, 68, 96, "int8", transpose_a=True, transpose_b=True), {"strips": 2},
    ),
    "more ranges than a cluster has": (Gemm(9, 72, 2052, "int8"), {"split": 16}),
    "rows of any length, [n, k]": (Gemm(9, 66, 65, "int8", transpose_b=True), {"ahead": 2}),
    "rows of any length, [k, n]": (Gemm(3, 19, 131, "int8"), {"vec": 8, "strips": 2}),
    "rows of any length, a as [k, m]": (
        Gemm(35, 23, 67, "int8", transpose_a=True), {"frags_m": 4},
    ),
    "rows of any length, both across": (
        Gemm(5, 33, 70, "int8", transpose_a=True, transpose_b=True), {"split": 16},
    ),
    "rows of a alone": (Gemm(6, 20, 201, "int8"), {}),
    "one row as [k, m]": (Gemm(1, 20, 123, "int8", transpose_a=True), {}),
    "one column as [k, n]": (Gemm(5, 1, 123, "int8"), {}),
    "sums of one product, b as [n, k]": (Gemm(5, 71, 1, "int8", transpose_b=True), {}),
    "one product": (Gemm(1, 1, 1, "int8"), {}),
    "one product, both across": (Gemm(1, 1, 1, "int8", 1, True, True), {}),
}  # fmt: skip


def assert_exact(source):
    """Assert that a kernel is exact in the emulator."""
    *given, out = arrays_of(source)
    rng = np.random.default_rng(0)
    arrays = [*(rng.integers(-128, 128, x.shape).astype(np.int8) for x in given), out]
    run_emulated(source.kernel("cuda"), arrays, orders=(0, 7))
    np.testing.assert_array_equal(arrays[-1], source.reference(*arrays[:2]))


@pytest.mark.many_cases
@pytest.mark.parametrize("name", PRODUCTS)
def test_few_rows_are_exact_in_the_emulator(name):
    shape, choice = PRODUCTS[name]
    assert_exact(gemm_skinny_int8.kernel(shape, CHOICE | choice))


def task_of(shape):
    args = (shape.m, shape.n, shape.k, "int8", shape.batch, shape.transpose_a, shape.transpose_b)
    return create("gemm.cuda", args, HOPPER)


@pytest.mark.parametrize("turned", [False, True], ids=["[k, n]", "[n, k]"])
def test_every_choice_of_few_rows_can_be_launched(turned):
    task = task_of(Gemm(23, 544, 1344, "int8", transpose_b=turned))
    space = task.config_space
    every = [space.get(i) for i in space.sample(100, np.random.default_rng(0))]
    for config in every:
        kernel = task.instantiate(config).kernel("cuda")
        assert kernel.name == "gemm_skinny_int8"
        assert launch_violation(kernel, HOPPER.limits) is None


OTHERS = {
    "many rows": Gemm(512, 4096, 4096, "int8"),
    "many rows of a as [k, m]": Gemm(256, 512, 4096, "int8", transpose_a=True),
    "rows along K that TMA reads": Gemm(64, 4096, 4096, "int8", transpose_b=True),
    "a batch": Gemm(16, 4096, 4096, "int8", 2),
}


@pytest.mark.parametrize("shape", OTHERS.values(), ids=OTHERS)
def test_what_cannot_be_streamed_is_multiplied_otherwise(shape):
    assert "warps_m" in task_of(shape).config_space.space_map


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(16, 4096, 4096, "int8", transpose_a=True),
        Gemm(16, 4096, 4096, "int8", transpose_a=True, transpose_b=True),
        Gemm(33, 4096, 4096, "int8", transpose_a=True),
        Gemm(16, 13568, 944, "int8", transpose_a=True),
    ],
    ids=["a across", "both across", "odd rows of a across", "a smaller matrix"],
)
def test_few_rows_stored_across_are_copied_for_a_large_matrix(shape):
    task = task_of(shape)
    source = task.instantiate(task.default())
    assert [one.entry for one in source.calls][:2] == ["along_k", "gemm_skinny_int8"]
    assert {one.name for one in source.workspace} - {"partial"} == {"a_along_k"}


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(4, 680, 5896, "int8", transpose_b=True),
        Gemm(8, 1912, 12776, "int8"),
        Gemm(8, 7840, 18616, "int8", transpose_b=True),
        Gemm(64, 128, 92640, "int8", transpose_a=True),
        Gemm(32, 8192, 1024, "int8", transpose_a=True),
        Gemm(24, 540, 8068, "int8", transpose_a=True, transpose_b=True),
        Gemm(16, 32, 40000, "int8", transpose_b=True),
        Gemm(4, 680, 5898, "int8", transpose_b=True),
        Gemm(16, 4096, 4095, "int8"),
        Gemm(16, 4098, 4096, "int8"),
        Gemm(16, 4096, 4095, "int8", transpose_a=True, transpose_b=True),
    ],
    ids=str,
)
def test_few_rows_of_any_layout_and_length_need_no_copies(shape):
    task = task_of(shape)
    entries = [one.entry for one in task.instantiate(task.default()).calls]
    assert entries[0] == "gemm_skinny_int8"


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(9, 68, 93, "int8"),
        Gemm(5, 71, 73, "int8", transpose_b=True),
        Gemm(5, 68, 93, "int8", transpose_a=True),
        Gemm(5, 68, 96, "int8", transpose_a=True, transpose_b=True),
    ],
    ids=["odd rows of a", "odd rows of both", "left across", "both across"],
)
def test_products_of_aligned_copies_are_exact_in_the_emulator(shape):
    assert_exact(gemm_int8.AlongK(gemm_skinny_int8).kernel(shape, CHOICE))


def test_products_that_were_tuned_before_few_rows_were_streamed_run_as_they_did():
    shape = Gemm(32, 4096, 4096, "int8")
    assert gemm_skinny_int8.suits(shape)
    assert not gemm_skinny_int8.suits(shape, {"wgmma": 2, "warps_m": 4})


@pytest.mark.parametrize("turned", [False, True], ids=["[k, n]", "[n, k]"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 4096, 4096), (32, 4096, 11008), (20, 768, 3072)])
def test_the_untuned_choice_of_few_rows_can_run(m, n, k, turned):
    shape = Gemm(m, n, k, "int8", transpose_b=turned)
    choice = gemm_skinny_int8.default_choice(shape, HOPPER)
    assert gemm_skinny_int8.violation(shape, choice, HOPPER) is None
    # Without clusters, blocks have whole sums, or a second kernel adds them.
    older = gemm_skinny_int8.default_choice(shape, Target("cuda -arch=sm_80"))
    assert older["split"] == 1 or older["split"] > gemm_skinny_int8.CLUSTERED


@pytest.mark.parametrize(
    "sizes",
    [(256, 160, 464), (184, 132, 332), (135, 116, 564)],
    ids=str,
)  # fmt: skip
def test_more_rows_of_short_sums_need_no_copies_either(sizes):
    task = task_of(Gemm(*sizes, "int8"))
    assert [one.entry for one in task.instantiate(task.default()).calls] == ["gemm_skinny_int8"]


def test_a_configuration_without_fragments_has_those_of_before():
    shape = Gemm(37, 136, 144, "int8")
    before = {"vec": 8, "strips": 1, "ranges": 8, "split": 2, "ahead": 1}
    task = task_of(Gemm(37, 4096, 4096, "int8"))
    entities = {name: OtherOptionEntity(value) for name, value in before.items()}
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.defines["FRAGS_M"] == 2
    assert gemm_skinny_int8.candidates(shape)["frags_m"] == [2, 4]


def test_many_products_of_operands_that_are_both_across_are_multiplied_on_a_copy():
    task = task_of(Gemm(1024, 2048, 2048, "int8", transpose_a=True))
    entries = [one.entry for one in task.instantiate(task.default()).calls]
    assert entries[:2] == ["along_k", "gemm_tma"]


def test_more_blocks_of_rows_than_a_grid_has_are_refused():
    shape = Gemm(5_000_000, 64, 32, "int8")
    choice = gemm_skinny_int8.default_choice(Gemm(64, 64, 32, "int8"), HOPPER)
    refused = gemm_skinny_int8.violation(shape, choice, HOPPER)
    assert refused == "too many blocks of rows"
    assert not gemm_int8.streams(shape, HOPPER, ())


def test_odd_rows_of_many_results_are_written_through_shared_memory_untuned():
    task = task_of(Gemm(831, 2063, 76, "int8", transpose_b=True))
    assert [one.entry for one in task.instantiate(task.default()).calls] == ["gemm_skinny_int8"]


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(1520, 2224, 208, "int8"),
        Gemm(512, 4096, 4096, "int8"),
        Gemm(2048, 2048, 1024, "int8", transpose_a=True, transpose_b=True),
    ],
    ids=str,
)
def test_an_operand_across_the_sum_is_multiplied_from_registers_untuned(shape):
    task = task_of(shape)
    assert [one.entry for one in task.instantiate(task.default()).calls] == ["gemm_tma"]


@pytest.mark.parametrize(
    "shape",
    [Gemm(1584, 1424, 64, "int8", transpose_a=True), Gemm(592, 2272, 64, "int8", 1, True, True)],
    ids=str,
)
def test_short_sums_of_operands_that_are_across_need_no_copies(shape):
    task = task_of(shape)
    assert [one.entry for one in task.instantiate(task.default()).calls] == ["gemm_mma"]


@pytest.mark.parametrize("sizes", [(544, 704, 3200), (768, 1536, 512), (160, 4096, 640)], ids=str)
def test_longer_sums_of_many_rows_as_k_by_m_run_by_boxes_of_a_copy(sizes):
    task = task_of(Gemm(*sizes, "int8", transpose_a=True))
    entries = [one.entry for one in task.instantiate(task.default()).calls]
    assert entries == ["along_k", "gemm_tma"]


@pytest.mark.parametrize(
    ("sizes", "first"),
    [((999, 1001, 1004), "along_k"), ((777, 1777, 404), "gemm_skinny_int8")],
    ids=str,
)
def test_only_long_sums_of_many_odd_rows_along_k_are_multiplied_on_copies(sizes, first):
    task = task_of(Gemm(*sizes, "int8", transpose_b=True))
    assert task.instantiate(task.default()).calls[0].entry == first


@pytest.mark.parametrize("rows", [48, 64])
def test_few_rows_of_two_operands_across_the_sum_run_untuned_on_copies(rows):
    task = create("gemm.cuda", (rows, 8512, 4928, "int8", 1, True, True), HOPPER)
    copies, product = task.instantiate(task.default()).calls
    assert copies.entry == "along_k"
    assert product.args[:2] == ("a_along_k", "b")


@pytest.mark.parametrize("args", [(56, 2816, 6416, False), (32, 6000, 2048, True)])
def test_few_rows_that_are_across_the_sum_are_copied_for_tma_where_that_is_faster(args):
    *sizes, turned = args
    task = create("gemm.cuda", (*sizes, "int8", 1, True, turned), HOPPER)
    entries = [one.entry for one in task.instantiate(task.default()).calls]
    assert "gemm_tma" in entries


@pytest.mark.parametrize("sizes", [(32, 13072, 6864), (17, 9360, 6800), (32, 4096, 11008)])
def test_more_rows_than_a_fragment_of_a_b_beyond_the_cache_are_left_to_tma(sizes):
    rows, n, k = sizes
    assert not gemm_skinny_int8.suits(Gemm(*sizes, "int8", transpose_b=True))
    assert gemm_skinny_int8.suits(Gemm(16, n, k, "int8", transpose_b=True))
    assert gemm_skinny_int8.suits(Gemm(rows, n, 4080, "int8", transpose_b=True))
    assert gemm_skinny_int8.suits(Gemm(rows, 3840, 11136, "int8", transpose_b=True))


@pytest.mark.parametrize(("n", "split"), [(3840, 4), (4096, 2)])
def test_clusters_that_are_not_all_resident_are_estimated_as_two_waves_and_not_chosen(n, split):
    shape = Gemm(32, n, 10240, "int8", transpose_b=True)
    fours = {"vec": 8, "strips": 1, "ranges": 4, "split": 4, "ahead": 1, "frags_m": 2}
    pairs = fours | {"ranges": 8, "split": 2}
    first, other = (gemm_skinny_int8.SkinnyTiling(shape, each) for each in (fours, pairs))
    assert (first.waves, other.waves) == (4 // split, 1)
    assert gemm_skinny_int8.default_choice(shape, HOPPER)["split"] == split


@pytest.mark.parametrize("sizes", [(62, 11136, 368), (95, 1424, 80)])
def test_few_rows_by_a_matrix_that_tma_reads_as_it_is_run_by_tma_where_estimates_say_so(sizes):
    task = task_of(Gemm(*sizes, "int8"))
    assert task.instantiate(task.default()).calls[0].entry == "gemm_tma"


def test_long_sums_of_few_rows_run_by_tma_rather_than_by_mma_whatever_estimates_say():
    task = task_of(Gemm(12, 9072, 1488, "int8"))
    assert task.instantiate(task.default()).calls[0].entry == "gemm_tma"


def test_sums_in_many_parts_are_streamed():
    task = task_of(Gemm(16, 352, 16208, "int8"))
    assert "gemm_tma" not in task.instantiate(task.default()).calls[0].entry


def test_clusters_that_are_not_spread_evenly_share_multiprocessors():
    shape = Gemm(32, 2048, 8192, "int8", transpose_b=True)
    wide = {"vec": 8, "strips": 1, "ranges": 4, "split": 4, "ahead": 1, "frags_m": 2}
    # 128 blocks in clusters of four run on 120 multiprocessors, in pairs on 132.
    assert gemm_skinny_int8.SkinnyTiling(shape, wide).warps == 8
    assert gemm_skinny_int8.SkinnyTiling(shape, wide | {"split": 2, "vec": 4}).warps == 4


@pytest.mark.parametrize(
    ("sizes", "entry"),
    [
        ((4, 11008, 4096), "gemm_tma"), ((11, 39984, 2560), "gemm_tma"),
        ((16, 4096, 4096), "gemm_tma"), ((13, 39056, 880), "gemm_skinny_int8"),
        ((8, 3072, 768), "gemm_skinny_int8"), ((4, 4096, 4088), "gemm_skinny_int8"),
    ],
    ids=str,
)  # fmt: skip
def test_few_rows_along_the_sum_run_by_tma_where_that_is_estimated_to_be_faster(sizes, entry):
    task = task_of(Gemm(*sizes, "int8", transpose_b=True))
    assert task.instantiate(task.default()).calls[0].entry == entry


def test_reads_of_a_matrix_beyond_the_cache_count():
    choice = CHOICE | {"vec": 8, "ranges": 8}
    near, far = (Gemm(16, n, 8192, "int8", transpose_b=True) for n in (4096, 8192))
    cycles = [float(gemm_skinny_int8.estimate(each, choice, HOPPER)) for each in (near, far)]
    assert cycles[1] > 1.5 * cycles[0]
    assert cycles[1] > far.n * far.k / gemm_skinny_int8.FAR_BYTES


@pytest.mark.parametrize(
    ("sizes", "turned"), [((142, 17, 12294), False), ((200, 9, 9001), True)], ids=str
)
def test_long_sums_of_few_unaligned_columns_are_split(sizes, turned):
    task = task_of(Gemm(*sizes, "int8", transpose_b=turned))
    assert task.instantiate(task.default()).calls[0].entry == "gemm_skinny_int8"
