"""CUDA C++: the tables in which it differs from C."""

from __future__ import annotations

from dataclasses import replace

from autotune.codegen.c import C
from autotune.codegen.dialect import ScalarType
from autotune.codegen.extremes import extreme_functions, extreme_helpers
from autotune.codegen.fragments import ALIGNMENT as FRAGMENT_ALIGNMENT
from autotune.codegen.fragments import HEADER
from autotune.codegen.functions import TO_TF32, floor_helpers, real_functions
from autotune.codegen.tensor_core import tensor_core_functions, tensor_core_helpers
from autotune.codegen.warpgroup import (
    ALIGNMENT,
    ARCH,
    FENCE,
    warpgroup_functions,
    warpgroup_helpers,
)
from autotune.codegen.zero_fill import zero_fill_helpers

_SCALARS = {
    "bool": ScalarType("bool", "bool"),
    "int8": ScalarType("signed char", "signed char", promotes=True),
    "int16": ScalarType("short", "short", promotes=True),
    "int32": ScalarType("int", "int"),
    "int64": ScalarType("long long", "long long", functions="long"),
    "uint8": ScalarType("unsigned char", "unsigned char", promotes=True),
    "uint16": ScalarType("unsigned short", "unsigned short", promotes=True),
    "uint32": ScalarType("unsigned int", "unsigned int"),
    "uint64": ScalarType("unsigned long long", "unsigned long long", functions="long"),
    "float32": ScalarType("float", "float", functions="float"),
    "float64": ScalarType("double", "double", functions="double"),
    "float16": ScalarType(
        "__half", "__half", literal="__float2half({})", functions="half", needs=("cuda_fp16.h",)
    ),
    "bfloat16": ScalarType(
        "__nv_bfloat16",
        "__nv_bfloat16",
        literal="__float2bfloat16({})",
        functions="bf16",
        needs=("cuda_bf16.h",),
    ),
}
_TO_SMALL = {"half": "__float2half", "bf16": "__float2bfloat16"}
_FROM_SMALL = {"half": "__half2float", "bf16": "__bfloat162float"}
# By bits, since a conversion may lose the sign of what is no number.
_COPYSIGN = (
    "__ushort_as_{t}((__{t}_as_ushort({{0}}) & 0x7fff) | (__{t}_as_ushort({{1}}) & 0x8000))"
)
_SMALL_NAMES = {"half": "half", "bf16": "bfloat16"}
_TESTS = ("isnan", "isinf", "isfinite")
# The nearest number of 11 bits, of two the larger, on any device.
_ROUND_TO_TF32 = """\
static __device__ __forceinline__ float round_to_tf32(float value) {
  const unsigned bits = __float_as_uint(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? value
                                             : __uint_as_float((bits + 0x1000u) & ~0x1fffu);
}
"""
# Without what exp2f does before and after for powers that are no normal floats.
_EXP2_FLUSHED = """\
static __device__ __forceinline__ float exp2_flushed_f32(float x) {
#ifdef AUTOTUNE_EMULATE
  return exp2f(x);
#else
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#endif
}
"""


def _small(column: str, name: str, text: str) -> str:
    """Return a float function for 16-bit numbers: widened, computed, rounded."""
    wide = _FROM_SMALL[column]
    inside = text.replace("{0}", f"{wide}({{0}})").replace("{1}", f"{wide}({{1}})")
    return inside if name in _TESTS else f"{_TO_SMALL[column]}({inside})"


def _functions() -> dict[str, dict[str, str]]:
    table = real_functions()
    table["rsqrt"] = {"float": "rsqrtf({0})", "double": "rsqrt({0})"}
    table["exp10"] = {"float": "exp10f({0})", "double": "exp10({0})"}
    for name, row in table.items():
        row |= {column: _small(column, name, row["float"]) for column in _TO_SMALL}
    table["abs"] |= dict.fromkeys(_TO_SMALL, "__habs({0})")
    table["copysign"] |= {column: _COPYSIGN.format(t=t) for column, t in _SMALL_NAMES.items()}
    table["abs"] |= {"long": "llabs({0})"}
    table["popcount"] = {"long": "__popcll({0})", "*": "__popc({0})"}
    table["exp2_flushed"] = {"float": "#exp2_flushed_f32({0})"}
    for name in ("shfl", "shfl_up", "shfl_down", "shfl_xor"):
        table[name] = {"*": f"__{name}_sync(0xffffffffu, {{0}}, {{1}}, {{2}})"}
    table |= TO_TF32 | extreme_functions()
    return table | tensor_core_functions() | warpgroup_functions()


def _casts() -> dict[tuple[str, str], str]:
    small = {"float16": ("half", "bfloat16"), "bfloat16": ("bf16", "float16")}
    casts = {}
    for dtype, (column, other) in small.items():
        to, wide = _TO_SMALL[column], _FROM_SMALL[column]
        casts[dtype, "float32"] = f"{wide}({{0}})"
        casts[dtype, "*"] = f"({{type}}){wide}({{0}})"
        casts["float32", dtype] = f"{to}({{0}})"
        casts["*", dtype] = f"{to}((float)({{0}}))"
        casts[dtype, other] = f"{_TO_SMALL[small[other][0]]}({wide}({{0}}))"
    return casts


CUDA = replace(
    C,
    scalars=_SCALARS,
    functions=_functions(),
    casts=_casts(),
    helpers=floor_helpers("static __device__ __forceinline__", "long long")
    | {"round_to_tf32": _ROUND_TO_TF32, "exp2_flushed_f32": _EXP2_FLUSHED}
    | extreme_helpers()
    | tensor_core_helpers()
    | warpgroup_helpers()
    | zero_fill_helpers(),
    headers=("cuda_fp16.h", "cuda_bf16.h", "cuda_pipeline.h", HEADER),
    flags={FENCE: f"-arch={ARCH}"},
    shared_alignment={FENCE: ALIGNMENT, HEADER: FRAGMENT_ALIGNMENT},
    entry='extern "C" __global__ void __launch_bounds__({bounds})\n{name}({params}) {{',
    restrict="__restrict__",
    unroll="#pragma unroll",
    vector_bytes=16,
    barriers={"shared": "__syncthreads();", "warp": "__syncwarp();"},
    infinity={
        "float": "__int_as_float(0x7f800000)",
        "double": "__longlong_as_double(0x7ff0000000000000ll)",
        "half": "__int_as_float(0x7f800000)",
        "bf16": "__int_as_float(0x7f800000)",
    },
    nan={
        "float": "__int_as_float(0x7fffffff)",
        "double": "__longlong_as_double(0x7fffffffffffffffll)",
        "half": "__int_as_float(0x7fffffff)",
        "bf16": "__int_as_float(0x7fffffff)",
    },
    # Without it nvcc divides thread indices as if they could be negative.
    assume="__builtin_assume(0 <= {name} && {name} < {extent});",
    heap_bytes=0,
    array_alignment=0,
    second_of_nan=False,
)
