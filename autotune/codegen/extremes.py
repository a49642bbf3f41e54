"""The larger and the smaller of two floats as CUDA functions that keep a NaN, as numpy's do.

C's ``fmax`` and CUDA's ``__hmax`` return the other number, so that a network's ReLU or clip would
hide where its numbers went wrong. An instruction of devices from sm_80 on keeps a NaN and takes no
longer (PTX ISA, "max", ``.NaN``).
"""

from __future__ import annotations

_WORD = "static __device__ __forceinline__"
_MODERN = "!defined(AUTOTUNE_EMULATE) && __CUDA_ARCH__ >= 800"
_CHOICE = "return {a} {sign} {b} || {a} != {a} ? a : b;"
_FLOAT = """\
{word} float {name}_float(float a, float b) {{
#if {modern}
  float found;
  asm("{name}.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
  return found;
#else
  {choice}
#endif
}}
"""
_DOUBLE = """\
{word} double {name}_double(double a, double b) {{
  {choice}
}}
"""
_SMALL = """\
{word} {type} {name}_{column}({type} a, {type} b) {{
#if {modern}
  return __h{name}_nan(a, b);
#else
  {choice}
#endif
}}
"""
# By column of the function table: the type, and a conversion to what any device compares.
_SMALL_TYPES = {"half": ("__half", "__half2float"), "bf16": ("__nv_bfloat16", "__bfloat162float")}
_SIGNS = {"max": ">", "min": "<"}


def extreme_functions() -> dict[str, dict[str, str]]:
    """Return the rows of the function table; integers have CUDA's own functions."""
    columns = ("float", "double", *_SMALL_TYPES)
    return {
        name: {column: f"#{name}_{column}({{0}}, {{1}})" for column in columns}
        | {"*": f"{name}({{0}}, {{1}})"}
        for name in _SIGNS
    }


def extreme_helpers() -> dict[str, str]:
    """Return the functions by name, as text."""
    helpers = {}
    for name, sign in _SIGNS.items():
        plain = _CHOICE.format(a="a", b="b", sign=sign)
        words = {"word": _WORD, "name": name, "modern": _MODERN}
        helpers[f"{name}_float"] = _FLOAT.format(choice=plain, **words)
        helpers[f"{name}_double"] = _DOUBLE.format(choice=plain, **words)
        for column, (kind, wide) in _SMALL_TYPES.items():
            choice = _CHOICE.format(a=f"{wide}(a)", b=f"{wide}(b)", sign=sign)
            helpers[f"{name}_{column}"] = _SMALL.format(
                type=kind, column=column, choice=choice, **words
            )
    return helpers
