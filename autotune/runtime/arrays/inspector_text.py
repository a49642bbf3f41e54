"""Kernels that compare and digest arrays where they are, in one text for C and for CUDA."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.kernel.kernel import Kernel, KernelCall, Launch
from autotune.kernel.source import arg
from autotune.target import Language

# Type of an element in memory, and its value in double precision.
_STORED = {
    "float32": ("float", "(double)x"),
    "float64": ("double", "x"),
    "float16": ("unsigned short", "half_value(x)"),
    "bfloat16": ("unsigned short", "bfloat_value(x)"),
    "bool": ("unsigned char", ""),
    "int8": ("signed char", ""),
    "uint8": ("unsigned char", ""),
    "int16": ("short", ""),
    "uint16": ("unsigned short", ""),
    "int32": ("int", ""),
    "uint32": ("unsigned int", ""),
    "int64": ("long long", ""),
    "uint64": ("unsigned long long", ""),
}
# No condition here traps, and vectors evaluate both sides of one.
_FLAGS: dict[Language, tuple[str, ...]] = {
    "c": ("-fno-trapping-math", "-fno-math-errno", "-fopenmp-simd"),
    "cuda": (),
}
_THREADS = 256
_BLOCKS = 512

# What is not a number only equals what is none either; integers are told apart as they are.
_JUDGE = """\
typedef union { unsigned int bits; float value; } Single;
INLINE double half_value(unsigned short h) {
  Single s;
  s.bits = (unsigned int)(h & 0x7fff) << 13;
  double size = (double)s.value * 5192296858534827628530496329220096.0;
  if ((h & 0x7c00) == 0x7c00) size = h & 0x3ff ? INF - INF : INF;
  return h & 0x8000 ? -size : size;
}
INLINE double bfloat_value(unsigned short h) {
  Single s;
  s.bits = (unsigned int)h << 16;
  return (double)s.value;
}
INLINE double error_of(STORED got, STORED want) {
#if INTEGER
  double apart = fabs((double)got - (double)want);
  return got == want ? 0.0 : apart > 1.0 ? apart : 1.0;
#else
  double g = widened(got), w = widened(want), apart = fabs(g - w);
  int same = (g == w) | ((g != g) & (w != w));
  return apart <= MOST ? apart : same ? 0.0 : INF;
#endif
}
INLINE void judge(STORED got, STORED want, double bound, double *tally) {
  double error = error_of(got, want);
  if (error > bound) tally[0] += 1;
  if (bound > 0 && bound <= 3.4028234663852886e38) {
    double part = error / bound;
    tally[1] += 1;
    tally[2] += part * part;
  }
}
"""
# Each changed word changes its own term, and so the sum; many changes cancel once in 2^64.
_MIX = """\
INLINE unsigned long long mixed(unsigned int word, unsigned long long i) {
  unsigned long long x = (word ^ i * 0x9E3779B97F4A7C15ull) * 0xD6E8FEB86659FD93ull;
  return (x ^ x >> 32) * 0xD6E8FEB86659FD93ull;
}
INLINE unsigned long long last_word(const unsigned char *bytes, long long size) {
  unsigned int word = 0;
  for (long long i = size / 4 * 4; i < size; i++) word = word << 8 | bytes[i];
  return mixed(word, (unsigned long long)size / 4);
}
"""
_HEAD = {
    "c": "#include <math.h>\n#define INLINE static inline\n#define INF ((double)INFINITY)\n",
    "cuda": (
        "#define INLINE static __device__ __forceinline__\n"
        "#define INF __longlong_as_double(0x7ff0000000000000ll)\n"
    ),
}
# No branch, and sums in any order: compilers make vectors of these loops.
_C_COMPARE = """\
#define SUM_ALL(BOUND) \\
  _Pragma("omp simd reduction(+ : wrong, counted, squares)") \\
  for (long long i = 0; i < count; i++) { \\
    double bound = BOUND, error = error_of(got[i], want[i]); \\
    int counts = (bound > 0) & (bound <= 3.4028234663852886e38); \\
    double part = counts ? error / bound : 0.0; \\
    wrong += error > bound ? 1.0 : 0.0; \\
    counted += counts ? 1.0 : 0.0; \\
    squares += part * part; \\
  }
INLINE long long changed(const unsigned char *guard, long long size) {
  long long found = 0;
  for (long long i = 0; i < size; i++) found += guard[i] != GUARD;
  return found;
}
void compare(const STORED *got, const STORED *want, const float *bounds, const long long *sizes,
             double *tally) {
  const unsigned char *first = (const unsigned char *)got;
  const long long count = sizes[0];
  double wrong = 0, counted = 0, squares = 0;
  if (sizes[1]) { SUM_ALL((double)bounds[i]) } else { SUM_ALL(0.0) }
  tally[0] += wrong;
  tally[1] += counted;
  tally[2] += squares;
  tally[3] += (double)(changed(first - sizes[3], sizes[3]) + changed(first + sizes[2], sizes[4]));
}
"""
_C_DIGEST = """\
void digest(const unsigned int *words, const long long *sizes, unsigned long long *sum) {
  unsigned long long total = 0;
  for (long long i = 0; i < sizes[0] / 4; i++) total += mixed(words[i], (unsigned long long)i);
  *sum = total + last_word((const unsigned char *)words, sizes[0]);
}
"""
_CUDA_LOOP = """\
  long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  long long step = gridDim.x * (long long)blockDim.x;
"""
_CUDA_COMPARE = (
    """\
extern "C" __global__ void compare(const STORED *got, const STORED *want, const float *bounds,
                                   const long long *sizes, double *tally) {
  double mine[4] = {0, 0, 0, 0};
  long long count = sizes[0], bounded = sizes[1];
  const unsigned char *before = (const unsigned char *)got, *after = before + sizes[2];
"""
    + _CUDA_LOOP
    + """\
  for (long long i = first; i < count; i += step)
    judge(got[i], want[i], bounded ? (double)bounds[i] : 0.0, mine);
  for (long long i = first; i < sizes[3]; i += step) mine[3] += (before - sizes[3])[i] != GUARD;
  for (long long i = first; i < sizes[4]; i += step) mine[3] += after[i] != GUARD;
  for (int k = 0; k < 4; k++) {
    for (int lane = 16; lane > 0; lane /= 2) mine[k] += __shfl_down_sync(~0u, mine[k], lane);
    if (threadIdx.x % 32 == 0 && mine[k] != 0) atomicAdd(&tally[k], mine[k]);
  }
}
"""
)
_CUDA_DIGEST = (
    """\
extern "C" __global__ void digest(const unsigned int *words, const long long *sizes,
                                  unsigned long long *sum) {
  unsigned long long mine = 0;
"""
    + _CUDA_LOOP
    + """\
  for (long long i = first; i < sizes[0] / 4; i += step)
    mine += mixed(words[i], (unsigned long long)i);
  if (first == 0) mine += last_word((const unsigned char *)words, sizes[0]);
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_down_sync(~0u, mine, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
"""
)


_COMPARE = {"c": _C_COMPARE, "cuda": _CUDA_COMPARE}
_DIGEST = {"c": _C_DIGEST, "cuda": _CUDA_DIGEST}


def compare_kernel(dtype: str, language: Language, guard: int) -> Kernel:
    """Return what adds up, for two arrays and bounds on how far they may be apart: the elements
    beyond their bounds, those that have one, the squares of their parts of it, and the bytes
    around the first array that are no longer ``guard``.

    It takes both arrays, the bounds, sizes (elements, whether there are bounds, bytes, those of
    the guards before and after), and the tally.
    """
    stored, value = _STORED[dtype]
    lines = [f"#define STORED {stored}", f"#define INTEGER {int(not value)}"]
    lines.append(f"#define GUARD {guard}")
    lines += [
        f"#define widened(x) ({value or '(double)x'})",
        "#define MOST 1.7976931348623157e308",
    ]
    source = "\n".join([_HEAD[language], *lines, _JUDGE, _COMPARE[language]])
    args = {"got": dtype, "want": dtype, "bounds": "float32", "sizes": "int64", "tally": "float64"}
    return _kernel("compare", language, source, args)


def digest_kernel(language: Language) -> Kernel:
    """Return what adds a digest of the bytes of an array to a number.

    It takes the array, (number of bytes,), and the number.
    """
    source = "\n".join([_HEAD[language], _MIX, _DIGEST[language]])
    args = {"words": "uint32", "sizes": "int64", "sum": "uint64"}
    return _kernel("digest", language, source, args)


def _kernel(name: str, language: Language, source: str, dtypes: Mapping[str, str]) -> Kernel:
    args = tuple(arg(one, (1,), dtype) for one, dtype in dtypes.items())
    launch = Launch((_BLOCKS, 1, 1), (_THREADS, 1, 1))
    calls = (KernelCall(name, tuple(dtypes), launch),)
    return Kernel(name, language, source, args, calls, flags=_FLAGS[language])
