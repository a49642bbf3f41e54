"""C11 with OpenMP: the base of the other dialects."""

from __future__ import annotations

from autotune.codegen import (
    distributed_fills,
    guarded_loads,
    lane_loops,
    masked_halves,
    registered_calls,
    reordered_sums,
    vector_math,
)
from autotune.codegen.dialect import Dialect, ScalarType
from autotune.codegen.functions import EXP2_FLUSHED, TO_TF32, floor_helpers, real_functions
from autotune.codegen.lane_loops import INLINED

_STDINT = ("stdint.h",)
_COLUMNS = {"int": "int", "long": "int64_t", "uint": "uint32_t", "ulong": "uint64_t"}


def _integers() -> dict[str, ScalarType]:
    scalars = {
        "bool": ScalarType("bool", "bool", needs=("stdbool.h",)),
        "int32": ScalarType("int", "int"),
        "int64": ScalarType("int64_t", "int64_t", functions="long", needs=_STDINT),
        "uint32": ScalarType("uint32_t", "uint32_t", functions="uint", needs=_STDINT),
        "uint64": ScalarType("uint64_t", "uint64_t", functions="ulong", needs=_STDINT),
    }
    for name in ("int8", "int16", "uint8", "uint16"):
        scalars[name] = ScalarType(f"{name}_t", f"{name}_t", promotes=True, needs=_STDINT)
    return scalars


# 16-bit floats are computed in float, and rounded where they are stored or cast.
SCALARS = _integers() | {
    "float32": ScalarType("float", "float", functions="float"),
    "float64": ScalarType("double", "double", functions="double"),
    "float16": ScalarType("_Float16", "float", "(float){}", "(_Float16){}", functions="float"),
    "bfloat16": ScalarType(
        "uint16_t",
        "float",
        "bf16_to_float({})",
        "float_to_bf16({})",
        functions="float",
        needs=("stdint.h", "string.h", "bf16_to_float", "float_to_bf16"),
    ),
}

_MIN_MAX = """{word} {type} {name}_{short}({type} a, {type} b) {{
  return a {op} b ? a : b;
}}
"""
# Keeps a NaN of either side, in no branch around which loops would not become loops of vectors.
_OR_NAN = """{word} {type} {name}_or_nan_{type}({type} a, {type} b) {{
  const {type} found = a {op} b ? a : b;
  return a != a ? a : found;
}}
"""
_EXTREMES = (("min", "<"), ("max", ">"))
_WIDEN = """ float bf16_to_float(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}
"""
# The nearest number of 11 bits, of two the larger.
_ROUND_TO_TF32 = """ float round_to_tf32(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  bits = (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
"""
_NARROW = """ uint16_t float_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
"""


def _helpers() -> dict[str, str]:
    types = {"float": "float", "double": "double", **_COLUMNS}
    helpers = {
        f"{name}_{short}": _MIN_MAX.format(word=INLINED, type=kind, name=name, short=short, op=op)
        for name, op in _EXTREMES
        for short, kind in types.items()
    }
    helpers |= {
        f"{name}_or_nan_{kind}": _OR_NAN.format(word=INLINED, type=kind, name=name, op=op)
        for name, op in _EXTREMES
        for kind in ("float", "double")
    }
    helpers |= floor_helpers(INLINED, "int64_t")
    helpers |= lane_loops.helpers() | vector_math.HELPERS
    written = {
        "bf16_to_float": _WIDEN, "float_to_bf16": _NARROW, "round_to_tf32": _ROUND_TO_TF32,
    }  # fmt: skip
    helpers |= {name: INLINED + text for name, text in written.items()}
    helpers[registered_calls.CALLER] = registered_calls.DECLARATION
    pragmas = guarded_loads.HELPERS | reordered_sums.HELPERS | masked_halves.HELPERS
    pragmas |= distributed_fills.HELPERS
    return pragmas | helpers  # in front of all functions


def _functions() -> dict[str, dict[str, str]]:
    table = real_functions()
    for name, _ in _EXTREMES:
        reals = "float", "double"
        table[name] = {short: f"#{name}_{short}({{0}}, {{1}})" for short in (*reals, *_COLUMNS)}
        table[f"{name}_or_nan"] = {
            short: f"#{name}_or_nan_{short}({{0}}, {{1}})" for short in reals
        }
    for name, text in vector_math.FUNCTIONS.items():
        table[name] |= {"float": text}
    table["abs"] |= {"long": "llabs({0})"}
    table["popcount"] = {
        "long": "__builtin_popcountll({0})",
        "ulong": "__builtin_popcountll({0})",
        "*": "__builtin_popcount({0})",
    }
    return table | TO_TF32 | EXP2_FLUSHED


C = Dialect(
    scalars=SCALARS,
    functions=_functions(),
    helpers=_helpers(),
    headers=("math.h", "stdbool.h", "stdint.h", "stdlib.h", "string.h"),
    entry="void {name}({params}) {{",
    restrict="restrict",
    unroll="#pragma GCC unroll {}",
    casts={
        ("*", "bool"): "(({0}) != 0)",
        ("*", "float16"): "((float)(_Float16)({0}))",
        ("*", "bfloat16"): "bf16_to_float(float_to_bf16((float)({0})))",
    },
    infinity={"float": "INFINITY", "double": "INFINITY"},
    nan={"float": "NAN", "double": "NAN"},
    helper_needs=vector_math.NEEDS,
    # Roots are single instructions where they need not set `errno`, and loops of them vectorise.
    flags={"math.h": "-fno-math-errno"},
    heap_bytes=64 * 1024,
    array_alignment=64,
    second_of_nan=True,
)
