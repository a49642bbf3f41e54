"""Hopper's ``wgmma`` as CUDA functions: 64 rows by up to 256 columns, 16 steps, sums in float32.

Operands stand in shared memory without swizzle (PTX ISA, "Asynchronous warpgroup level matrix
operations", strides): core matrices of eight vectors of 16 bytes below one another, so many bytes
("pitch") from a column of vectors to the next. Vectors lie along the reduction, or, of an operand
that is turned, across it. The emulator, which has no such instruction, lets each thread add up its
own sums.
"""

from __future__ import annotations

_KINDS = {"f16": ("__half", "__half2float"), "bf16": ("__nv_bfloat16", "__bfloat162float")}
# What they are compiled for: such code runs on compute capability 9.0 and nowhere else.
ARCH = "sm_90a"
_COLUMNS = range(8, 257, 8)

_SHARED_TEXT = """\
#ifdef AUTOTUNE_EMULATE
static inline void wgmma_fence() {}
static inline void wgmma_commit() {}
template <int PENDING> static inline void wgmma_wait() {}
template <int COUNT> static inline void wgmma_sums(float&) {}
static inline void wgmma_show() {}
#else
// Describes an operand; a core matrix is 128 bytes before the one eight vectors further.
template <int TURNED>
static __device__ __forceinline__ unsigned long long wgmma_operand(const void* at, int pitch) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(at) & 0x3ffff;
  const unsigned long long along = TURNED ? 128 : pitch, across = TURNED ? pitch : 128;
  return place >> 4 | along >> 4 << 16 | across >> 4 << 32;
}

// Orders what threads did to their sums before the instructions that follow.
static __device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most so many groups of instructions are still at work.
template <int PENDING>
static __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from reading sums before a wait, which it does not know to concern them.
template <int COUNT>
static __device__ __forceinline__ void wgmma_sums(float& first) {
  float* const sum = &first;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

// Makes stores to shared memory visible to instructions, which read it by another way.
static __device__ __forceinline__ void wgmma_show() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif
"""
_PRODUCT_TEXT = """\
template <int LEFT_TURNED, int RIGHT_TURNED>
static __device__ __forceinline__ void {name}(
    float& first, const {type}& left, const {type}& right, const int left_pitch,
    const int right_pitch) {{
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  for (int i = 0; i < {sums}; ++i) {{
    const int row = threadIdx.z % 4 * 16 + i / 2 % 2 * 8 + threadIdx.y;
    const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {{
      const int a = LEFT_TURNED ? row / 8 * left_pitch / 2 + k * 8 + row % 8
                                : k / 8 * left_pitch / 2 + row * 8 + k % 8;
      const int b = RIGHT_TURNED ? column / 8 * right_pitch / 2 + k * 8 + column % 8
                                 : k / 8 * right_pitch / 2 + column * 8 + k % 8;
      sum[i] += {wide}((&left)[a]) * {wide}((&right)[b]);
    }}
  }}
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{ptx}.{ptx} {{"
{names}
      "}}, %{sums}, %{b}, 1, 1, 1, %{turn_a}, %{turn_b};"
      : {outputs}
      : "l"(wgmma_operand<LEFT_TURNED>(&left, left_pitch)),
        "l"(wgmma_operand<RIGHT_TURNED>(&right, right_pitch)),
        "n"(LEFT_TURNED), "n"(RIGHT_TURNED));
#endif
}}
"""


def _product(name: str, ptx: str, columns: int) -> str:
    kind, wide = _KINDS[ptx]
    sums = columns // 2
    places = [f"%{i}" for i in range(sums)]
    outputs = [f'"+f"(sum[{i}])' for i in range(sums)]
    names = [", ".join(places[i : i + 16]) for i in range(0, sums, 16)]
    lines = [", ".join(outputs[i : i + 6]) for i in range(0, sums, 6)]
    return _PRODUCT_TEXT.format(
        name=name, type=kind, wide=wide, ptx=ptx, columns=columns, sums=sums,
        b=sums + 1, turn_a=sums + 2, turn_b=sums + 3,
        names="\n".join(f'      "{n}{", " if n is not names[-1] else ""}"' for n in names),
        outputs=",\n        ".join(lines),
    )  # fmt: skip


def _products() -> dict[str, str]:
    return {
        name: _product(name, ptx, columns)
        for ptx in _KINDS
        for columns in _COLUMNS
        for name in (f"wgmma_m64n{columns}k16_{ptx}",)
    }


# What all share comes with the fence, which stands before every product.
FENCE = "wgmma_fence"


def warpgroup_helpers() -> dict[str, str]:
    """Return the functions by name, as text."""
    return {FENCE: _SHARED_TEXT, **_products()}


def warpgroup_functions() -> dict[str, dict[str, str]]:
    """Return how calls of them are written."""
    turns, places = "<{5}, {6}>", "({0}, {1}, {2}, {3}, {4})"
    table = {name: f"#{name}{turns}{places}" for name in _products()}
    table |= {
        FENCE: f"#{FENCE}()",
        "wgmma_commit": "wgmma_commit()",
        "wgmma_wait": "wgmma_wait<{0}>()",
        "wgmma_sums": "wgmma_sums<{1}>({0})",
        "wgmma_show": "wgmma_show()",
    }
    return {name: {"*": text} for name, text in table.items()}
