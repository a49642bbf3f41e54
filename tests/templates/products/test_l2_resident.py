"""Weights larger than the L2 cache, of which a part stays in it."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates import common
from autotune.templates.convolutions.conv2d_int8 import IntegerConv2dNhwc, Requantisation
from autotune.templates.convolutions.conv2d_shape import Window
from autotune.templates.products import (
    gemm_skinny_int8,
    l2_resident,
    matvec_across,
    matvec_cuda,
    matvec_int8,
)
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import run_emulated
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
# The L2 cache of a B200 has 126 MB, that of a GeForce RTX 5090 96.
OTHERS = [Target(f"cuda -arch={arch}") for arch in ("sm_80", "sm_100", "sm_120")]


def by_rows(n, k):
    end = Requantisation("int8", 3, "float32", 0, -3e38, 3e38)
    return IntegerConv2dNhwc(2, 1, 1, n, k, Window((1, 1)), 1, end, rows=True)


def by_weights(n, k, dtype="float32"):
    return Gemm(1, n, k, dtype, transpose_b=True)


# Weights of 64 KB, and choices of which some warps have weights that stay and others do not.
SMALL = {
    "rows": (matvec_cuda, Gemm(3, 64, 256, transpose_b=True),
             {"vec": 4, "lanes": 32, "rows": 2, "groups": 2, "ahead": 2}),
    "rows, several warps a row": (matvec_cuda, Gemm(1, 64, 256, transpose_b=True),
             {"vec": 2, "lanes": 64, "rows": 1, "groups": 1, "ahead": 1}),
    "rows, several rows a warp": (matvec_cuda, Gemm(1, 67, 254, "float16", transpose_b=True),
             {"vec": 2, "lanes": 8, "rows": 1, "groups": 8, "ahead": 1}),
    "rows of halves, one by one": (matvec_cuda, Gemm(1, 64, 257, "bfloat16", transpose_b=True),
             {"vec": 1, "lanes": 32, "rows": 2, "groups": 2, "ahead": 4}),
    "columns": (matvec_across, Gemm(2, 64, 250),
             {"vec": 4, "across": 16, "along": 4, "ahead": 4, "split": 1}),
    "columns, one by one": (matvec_across, Gemm(1, 65, 250),
             {"vec": 1, "across": 32, "along": 4, "ahead": 8, "split": 1}),
    "integers, [n, k]": (gemm_skinny_int8, Gemm(3, 70, 1024, "int8", transpose_b=True),
             {"vec": 4, "strips": 1, "ranges": 4, "split": 1, "ahead": 1, "frags_m": 2}),
    "integers, [k, n]": (gemm_skinny_int8, Gemm(3, 72, 1000, "int8"),
             {"vec": 8, "strips": 1, "ranges": 4, "split": 1, "ahead": 2, "frags_m": 2}),
    "integers to floats": (matvec_int8, by_rows(67, 960), {"lanes": 16, "threads": 64}),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SMALL)
def test_what_stays_changes_no_result(name, monkeypatch):
    monkeypatch.setattr(l2_resident, "MEGABYTE", 1000)
    family, shape, sizes = SMALL[name]
    arrays = arrays_of(family.kernel(shape, sizes))
    results = []
    for kilobytes in (0, 8, 24):
        source = family.kernel(shape, {**sizes, l2_resident.KNOB: kilobytes})
        given = [x.copy() for x in arrays]
        run_emulated(source.kernel("cuda"), given, orders=(0,))
        results.append(given[-1])
    for each in results[1:]:
        np.testing.assert_array_equal(each, results[0])
    wanted = source.reference(*arrays[:-1])
    np.testing.assert_allclose(results[0].astype(np.float64), wanted, rtol=2e-2, atol=2e-1)


def test_the_share_that_stays_is_rounded_to_256ths():
    def share(weight_bytes, choice):
        return l2_resident.in_256ths(weight_bytes, choice)["resident_256ths"]

    assert share(64_000_000, {l2_resident.KNOB: 16}) == 64
    assert share(64_000_000, {l2_resident.KNOB: 0}) == share(64_000_000, {}) == 256
    assert share(10_000_000, {l2_resident.KNOB: 16}) == 256
    assert share(10**13, {l2_resident.KNOB: 8}) == 1
    assert share(0, {l2_resident.KNOB: 8}) == 256


@pytest.mark.parametrize("weight_bytes", [0, 10**6, 50 * 10**6, 10**9, 4 * 10**9, 10**13])
def test_no_two_values_are_one_kernel(weight_bytes):
    values = l2_resident.values(weight_bytes)
    kernels = [l2_resident.in_256ths(weight_bytes, {l2_resident.KNOB: mb}) for mb in values]
    assert len({*map(str, kernels)}) == len(values)
    assert values[0] == 0
    assert weight_bytes < l2_resident.LEAST or l2_resident.UNTUNED in values


@pytest.mark.parametrize("share", [1, 37, 64, 255, 256])
def test_units_that_stay_are_spread_evenly(share):
    stays = np.array([share == 256 or unit * share % 256 < share for unit in range(1024)])
    assert "unit * RESIDENT_256THS % 256u < RESIDENT_256THS" in common.text(l2_resident.TEXT)
    counts = np.convolve(stays, np.ones(256, int), "valid")
    assert set(counts) == {share}
    gaps = np.diff(np.flatnonzero(stays))
    assert gaps.max(initial=0) - gaps.min(initial=1024) <= 1


@pytest.mark.parametrize(
    ("family", "small", "large"),
    [
        (matvec_cuda, by_weights(1024, 4096), by_weights(4096, 4096)),
        (matvec_cuda, by_weights(4096, 4096, "float16"), by_weights(50257, 768, "float16")),
        (matvec_across, Gemm(1, 1024, 4096), Gemm(1, 4096, 4096)),
        (gemm_skinny_int8, by_weights(4096, 4096, "int8"), by_weights(11008, 4096, "int8")),
        (matvec_int8, by_rows(4096, 4096), by_rows(32000, 4096)),
    ],
)  # fmt: skip
def test_part_of_the_weights_stays_where_the_cache_does_not_hold_all(family, small, large):
    assert family.candidates(small)[l2_resident.KNOB] == [0]
    assert family.default_choice(small, HOPPER)[l2_resident.KNOB] == 0
    values = family.candidates(large)[l2_resident.KNOB]
    untuned = family.default_choice(large, HOPPER)
    assert values[0] == 0 < untuned[l2_resident.KNOB] in values
    for other in OTHERS:
        assert family.default_choice(large, other)[l2_resident.KNOB] == 0
    assert family.violation(large, untuned, HOPPER) is None


@pytest.mark.parametrize(
    ("family", "shape"),
    [
        pytest.param(matvec_across, Gemm(1, 4262, 18887), id="rows that share sectors"),
        pytest.param(matvec_across, Gemm(1, 50256, 1024), id="large by columns"),
        pytest.param(
            matvec_cuda, Gemm(16, 700000, 35, "bfloat16", transpose_b=True),
            id="less than a sector at a time",
        ),
        pytest.param(matvec_cuda, by_weights(28672, 8192, "bfloat16"), id="large by rows"),
        pytest.param(gemm_skinny_int8, Gemm(8, 32000, 4096, "int8", 1, False, True), id="large"),
        pytest.param(gemm_skinny_int8, by_weights(14336, 4100, "int8"), id="integers that do"),
        pytest.param(gemm_skinny_int8, Gemm(16, 14336, 4096, "int8"), id="integers by columns"),
    ],
)  # fmt: skip
def test_where_it_was_no_gain_a_part_stays_only_when_tuned(family, shape):
    assert family.default_choice(shape, HOPPER)[l2_resident.KNOB] == 0
    assert max(family.candidates(shape)[l2_resident.KNOB]) > 0


def test_several_rows_may_load_weights_within_the_cache_evict_first_when_tuned():
    def values(rows, n=2048, k=4096):
        shape = Gemm(rows, n, k, transpose_b=True)
        assert matvec_cuda.default_choice(shape, HOPPER)[l2_resident.KNOB] == 0
        return matvec_cuda.candidates(shape)[l2_resident.KNOB]

    assert [values(8), values(4), values(3), values(8, 512)] == [[0, 8], [0, 8], [0], [0]]


def test_unaligned_rows_of_integers_are_loaded_alike():
    shape = Gemm(4, 14335, 4098, "int8", transpose_b=True)
    assert gemm_skinny_int8.candidates(shape)[l2_resident.KNOB] == [0]


LOGGED = {
    "matvec.cuda": ((4096, 4096), {"vec": 4, "lanes": 32, "rows": 1, "groups": 4, "ahead": 2}),
    "gemm.cuda": ((1, 6042, 2003), {"vec": 2, "across": 16, "along": 16, "ahead": 4, "split": 1}),
    "gemm.cuda of integers": (
        (1, 50304, 1020, "int8", 1, False, True),
        {"vec": 4, "strips": 1, "ranges": 4, "split": 1, "ahead": 1, "frags_m": 2},
    ),
    "gemm.cuda of integers, on a copy of a": (
        (1, 50304, 1022, "int8", 1, False, False),
        {"vec": 4, "strips": 1, "ranges": 4, "split": 1, "ahead": 1, "frags_m": 2},
    ),
    "gemm_int8.cuda": ((1, 32000, 4096), {"lanes": 32, "threads": 128}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGGED)
def test_of_a_record_from_before_the_knob_all_weights_are_loaded_alike(name):
    args, choice = LOGGED[name]
    older = ConfigEntity(7, None, {k: OtherOptionEntity(v) for k, v in choice.items()})
    task = create(name.partition(" ")[0], args, HOPPER)
    source = task.instantiate(older)
    assert "#define RESIDENT_256THS 256\n" in source.text()
    assert task.own(older).space is task.config_space
