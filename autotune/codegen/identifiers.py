"""C identifiers close to the user's names, unique in their scope."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Words that mean something in C, C++, CUDA, or in the texts that the printers write.
RESERVED = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq
    threadIdx blockIdx blockDim gridDim warpSize half half2 dim3 min max abs assert clock
    tx ty tz bx by bz dynamic_shared
    LANES VECTOR_BYTES aligned_alloc float_to_bits bits_to_float select_f32
    exp_bounded_f32 exp_f32 log_of_bits_f32 log_f32 tanh_f32 erf_f32 sigmoid_f32
    acos acosf acosh acoshf asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf ceil ceilf
    copysign copysignf cos cosf cosh coshf
    erf erff exp exp10 exp10f exp2 exp2f expf fabs fabsf floor floorf fmod fmodf free hypot hypotf
    isfinite isinf isnan log log10 log10f log1p log1pf log2 log2f logf malloc nearbyint nearbyintf
    pow powf round roundf rsqrt rsqrtf sin sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf trunc
    truncf y0 y1 yn j0 j1 jn gamma index signal main printf INFINITY NAN
    """.split()  # noqa: SIM905
)
_OTHER = re.compile(r"[^0-9A-Za-z_]")
_TYPE_LIKE = re.compile(
    r"(u?int\d+_t|((float|double|u?int|u?char|u?short|u?long(long)?)[1-4])|(m(ax|in)_)?(float|double|int)_v(16|32|64))$"
)


def legal(name: str) -> str:
    """Return ``name`` as an identifier: ``"i.outer"`` becomes ``i_outer``."""
    text = _OTHER.sub("_", name) or "value"
    if text[0].isdigit() or text.startswith("__"):
        text = "v" + text
    return text + "_" if text in RESERVED or _TYPE_LIKE.match(text) else text


class Names:
    """The names of one function, in scopes that nest as its braces do.

    A thing keeps its name for good. Two things may share one name only where neither sees the
    other, as two loops one after the other. ``reserved`` are names that functions have.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._of: dict[object, str] = {}
        self._scopes: list[list[str]] = [[]]
        self._taken: set[str] = set(reserved)

    def __getitem__(self, thing: object) -> str:
        return self._of[thing]

    def get(self, thing: object) -> str | None:
        """Return the name of a thing, or None if it has none yet."""
        return self._of.get(thing)

    def __contains__(self, thing: object) -> bool:
        return thing in self._of

    def set(self, thing: object, name: str) -> None:
        """Give a thing a name that is known to be free, such as that of a thread index."""
        self._of[thing] = name
        self._taken.add(name)

    def declare(self, thing: object, wanted: str, outermost: bool = False) -> str:
        """Name a thing in the innermost scope, or the outermost, and return the name."""
        base = self._of.get(thing) or legal(wanted)
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._of[thing] = name
        self._taken.add(name)
        self._scopes[0 if outermost else -1].append(name)
        return name

    def enter(self) -> None:
        """Open a scope."""
        self._scopes.append([])

    def leave(self) -> None:
        """Close the innermost scope; its names are free again."""
        self._taken.difference_update(self._scopes.pop())
