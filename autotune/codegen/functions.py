"""Names of math functions, for the tables of the dialects."""

from __future__ import annotations

# Functions that C has for double, and with an f for float.
_SAME_NAME = (
    "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "tanh", "sin", "cos", "tan", "sinh",
    "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc",
    "round", "nearbyint",
)  # fmt: skip
_TWO = ("atan2", "fmod", "hypot", "copysign", "pow")
_TESTS = ("isnan", "isinf", "isfinite")


def real_functions() -> dict[str, dict[str, str]]:
    """Return the functions of float and double that C and CUDA write alike."""
    table = {name: {"float": f"{name}f({{0}})", "double": f"{name}({{0}})"} for name in _SAME_NAME}
    table |= {
        name: {"float": f"{name}f({{0}}, {{1}})", "double": f"{name}({{0}}, {{1}})"}
        for name in _TWO
    }
    table |= {name: {"float": f"{name}({{0}})", "double": f"{name}({{0}})"} for name in _TESTS}
    table["abs"] = {"float": "fabsf({0})", "double": "fabs({0})", "int": "abs({0})"}
    table["exp10"] = {"float": "powf(10.0f, {0})", "double": "pow(10.0, {0})"}
    table["sigmoid"] = {
        "float": "(1.0f / (1.0f + expf(-({0}))))",
        "double": "(1.0 / (1.0 + exp(-({0}))))",
    }
    table["rsqrt"] = {"float": "(1.0f / sqrtf({0}))", "double": "(1.0 / sqrt({0}))"}
    return table


# Rounding to TF32 is of float32 only, and a helper that each dialect has.
TO_TF32 = {"tf32": {"float": "#round_to_tf32({0})"}}
# A power of two that may be zero below the least normal float: one instruction of a GPU, and
# for C what it has.
EXP2_FLUSHED = {"exp2_flushed": {"float": "exp2f({0})"}}
FLOOR_DIVISION = {
    "floor_div": (
        "{word} {type} floor_div_{short}({type} a, {type} b) {{\n"
        "  {type} q = a / b;\n"
        "  return q - (a % b != 0 && (a < 0) != (b < 0));\n}}\n"
    ),
    "floor_mod": (
        "{word} {type} floor_mod_{short}({type} a, {type} b) {{\n"
        "  {type} r = a % b;\n"
        "  return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);\n}}\n"
    ),
}


def floor_helpers(word: str, wide: str) -> dict[str, str]:
    """Return the helpers of division that rounds down; ``word`` begins their declarations."""
    return {
        f"{name}_{short}": text.format(word=word, type=kind, short=short)
        for name, text in FLOOR_DIVISION.items()
        for short, kind in (("i32", "int"), ("i64", wide))
    }
