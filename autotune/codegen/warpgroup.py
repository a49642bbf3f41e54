"""Hopper's ``wgmma`` as CUDA functions: 64 rows by up to 256 columns, sums in float32.

One takes 16 steps of 16-bit floats, or 8 of floats, which it cuts to TF32. Operands stand in
shared memory in panels: rows of 128 bytes, the eight vectors of 16 bytes of each exchanged by the
last three bits of its number (PTX ISA, "Asynchronous warpgroup level matrix operations", 128-byte
swizzle), and panels one after another. Along a row items are neighbours in the reduction, or, of
a transposed operand of 16 bits, across it. A call gets the tile, which begins at a multiple of
`ALIGNMENT` bytes, and where in it the operand begins. The emulator, which has no such instruction,
lets each thread add up its own sums.
"""

from __future__ import annotations

# Type of an item, and the operands of the instruction that say which inputs are transposed.
_TURNS = ", %{turn_a}, %{turn_b}"
_KINDS = {"f16": ("__half", _TURNS), "bf16": ("__nv_bfloat16", _TURNS), "tf32": ("float", "")}
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4}
# What they are compiled for: such code runs on compute capability 9.0 and nowhere else.
ARCH = "sm_90a"
# Bytes at whose multiples operands begin: eight rows of a panel.
ALIGNMENT = 1024
_COLUMNS = range(8, 257, 8)

_SHARED_TEXT = """\
#ifdef AUTOTUNE_EMULATE
static inline void wgmma_fence() {}
static inline void wgmma_commit() {}
template <int PENDING> static inline void wgmma_wait() {}
template <int COUNT> static inline void wgmma_sums(float&) {}
static inline void wgmma_show() {}
template <class T> static inline float wgmma_value(T item) { return (float)item; }
static inline float wgmma_value(float item) {
  return __uint_as_float(__float_as_uint(item) & ~0x1fffu);
}
// Returns an item of an operand: of the row or column `across`, the one `k` along the reduction.
template <int TURNED, class T>
static inline float wgmma_item(const T* tile, int begin, int panel, int across, int k) {
  constexpr int LENGTH = 128 / sizeof(T), VECTOR = 16 / sizeof(T), ITEM = sizeof(T);
  const int row = TURNED ? k : across, column = TURNED ? across : k;
  const int plain = begin + column / LENGTH * (panel / ITEM) + row * LENGTH + column % LENGTH;
  return wgmma_value(tile[plain ^ (plain / LENGTH & 7) * VECTOR]);
}
#else
// Describes an operand that begins some bytes after a tile: eight rows are 1024 bytes before the
// next eight, a panel is so many before the next, and vectors are exchanged. Operands of a tile
// differ by a sum only.
static __device__ __forceinline__ unsigned long long wgmma_operand(
    const void* tile, unsigned begin, int panel) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(tile) & 0x3ffff;
  const unsigned long long layout = 1ull << 62 | 1024ull >> 4 << 32;
  return (layout | (unsigned long long)(panel >> 4) << 16 | place >> 4) + (begin >> 4);
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
_HOLD_TEXT = """\
// Keeps what a value is computed of before the waits that follow: else the assembler, which sees
// that they do not concern it, waits first. The branch is for all threads of a warp or for none.
static __device__ __forceinline__ void wgmma_hold(float value) {
#ifndef AUTOTUNE_EMULATE
  if (__any_sync(0xffffffffu, value > 1e38f)) asm volatile("nanosleep.u32 0;");
#endif
}
"""
_TURN_TEXT = """\
// Turns of two warpgroups at beginning products: 0 lets the first one begin, 1 waits for the own
// turn, 2 passes it to the other, and 3 takes what was passed last.
template <int STEP>
static __device__ __forceinline__ void warpgroup_turn() {
  const int group = threadIdx.z / 4;
  if (STEP == 0 && group != 1 || STEP == 3 && group != 0) return;
  if (STEP % 2) asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
  else asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
}
"""
_PRODUCT_TEXT = """\
template <int LEFT_TURNED, int RIGHT_TURNED>
static __device__ __forceinline__ void {name}(
    float& first, const {type}& left, int left_begin, const {type}& right, int right_begin,
    int left_panel, int right_panel) {{
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  for (int i = 0; i < {sums}; ++i) {{
    const int row = threadIdx.z % 4 * 16 + i / 2 % 2 * 8 + threadIdx.y;
    const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
    for (int k = 0; k < {depth}; ++k)
      sum[i] += wgmma_item<LEFT_TURNED>(&left, left_begin, left_panel, row, k) *
                wgmma_item<RIGHT_TURNED>(&right, right_begin, right_panel, column, k);
  }}
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{ptx}.{ptx} {{"
{names}
      "}}, %{sums}, %{b}, 1, 1, 1{turns};"
      : {outputs}
      : "l"(wgmma_operand(&left, left_begin * sizeof left, left_panel)),
        "l"(wgmma_operand(&right, right_begin * sizeof right, right_panel)),
        "n"(LEFT_TURNED), "n"(RIGHT_TURNED));
#endif
}}
"""
# The pair is there before the fence after it: instructions read what was in registers by then.
_PAIR_TEXT = """\
static __device__ __forceinline__ unsigned {name}({type} low, {type} high) {{
  unsigned pair = (unsigned){bits}(low) | (unsigned){bits}(high) << 16;
#ifndef AUTOTUNE_EMULATE
  asm volatile("" : "+r"(pair));
#endif
  return pair;
}}
"""
_PAIRS = {
    "wgmma_pair_f16": ("__half", "__half_as_ushort"),
    "wgmma_pair_bf16": ("__nv_bfloat16", "__bfloat16_as_ushort"),
}
# The same where threads pass the left operand, pairs of steps of their two rows.
_PASSED_TEXT = """\
template <int RIGHT_TURNED>
static __device__ __forceinline__ void {name}(
    float& first, unsigned left0, unsigned left1, unsigned left2, unsigned left3,
    const {type}& right, int right_begin, int right_panel) {{
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  const unsigned left[2][2] = {{{{left0, left2}}, {{left1, left3}}}};
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x & 31;
  for (int k = 0; k < {depth}; ++k) {{
    for (int half = 0; half < 2; ++half) {{
      const unsigned pair = left[half][k / 8];
      const float mine = (float){made}((unsigned short)(pair >> k % 2 * 16));
      const float item = __shfl_sync(0xffffffffu, mine, lane / 4 * 4 + k % 8 / 2);
      for (int i = 0; i < {sums}; ++i) {{
        if (i / 2 % 2 != half) continue;
        const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
        sum[i] += item * wgmma_item<RIGHT_TURNED>(&right, right_begin, right_panel, column, k);
      }}
    }}
  }}
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{ptx}.{ptx} {{"
{names}
      "}}, {{%{sums}, %{sums1}, %{sums2}, %{sums3}}}, %{b}, 1, 1, 1, %{turn_b};"
      : {outputs}
      : "r"(left0), "r"(left1), "r"(left2), "r"(left3),
        "l"(wgmma_operand(&right, right_begin * sizeof right, right_panel)), "n"(RIGHT_TURNED));
#endif
}}
"""


# The same of floats, of which a register has one.
_PASSED_FLOATS_TEXT = """\
static __device__ __forceinline__ void {name}(
    float& first, float left0, float left1, float left2, float left3, const float& right,
    int right_begin, int right_panel) {{
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  const float left[2][2] = {{{{left0, left2}}, {{left1, left3}}}};
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x & 31;
  for (int k = 0; k < {depth}; ++k) {{
    for (int half = 0; half < 2; ++half) {{
      const float mine = wgmma_value(left[half][k / 4]);
      const float item = __shfl_sync(0xffffffffu, mine, lane / 4 * 4 + k % 4);
      for (int i = 0; i < {sums}; ++i) {{
        if (i / 2 % 2 != half) continue;
        const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
        sum[i] += item * wgmma_item<0>(&right, right_begin, right_panel, column, k);
      }}
    }}
  }}
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{ptx}.{ptx} {{"
{names}
      "}}, {{%{sums}, %{sums1}, %{sums2}, %{sums3}}}, %{b}, 1, 1, 1;"
      : {outputs}
      : "r"(__float_as_uint(left0)), "r"(__float_as_uint(left1)), "r"(__float_as_uint(left2)),
        "r"(__float_as_uint(left3)),
        "l"(wgmma_operand(&right, right_begin * sizeof right, right_panel)));
#endif
}}
"""


def _product(name: str, ptx: str, columns: int) -> str:
    words, sums = _words(name, ptx, columns), columns // 2
    turns = _KINDS[ptx][1].format(turn_a=sums + 2, turn_b=sums + 3)
    return _PRODUCT_TEXT.format(**words, b=sums + 1, turns=turns)


def _passed_product(name: str, ptx: str, columns: int) -> str:
    words, sums = _words(name, ptx, columns), columns // 2
    if ptx == "tf32":
        places = {f"sums{i}": sums + i for i in (1, 2, 3)}
        return _PASSED_FLOATS_TEXT.format(**words, **places, b=sums + 4)
    made = {"f16": "__ushort_as_half", "bf16": "__ushort_as_bfloat16"}[ptx]
    places = {f"sums{i}": sums + i for i in (1, 2, 3)}
    return _PASSED_TEXT.format(**words, **places, made=made, b=sums + 4, turn_b=sums + 5)


def _words(name: str, ptx: str, columns: int) -> dict[str, object]:
    sums = columns // 2
    places = [f"%{i}" for i in range(sums)]
    outputs = [f'"+f"(sum[{i}])' for i in range(sums)]
    names = [", ".join(places[i : i + 16]) for i in range(0, sums, 16)]
    lines = [", ".join(outputs[i : i + 6]) for i in range(0, sums, 6)]
    return {
        "name": name, "type": _KINDS[ptx][0], "ptx": ptx, "columns": columns, "sums": sums,
        "depth": 32 // _BYTES[ptx],
        "names": "\n".join(f'      "{n}{", " if n is not names[-1] else ""}"' for n in names),
        "outputs": ",\n        ".join(lines),
    }  # fmt: skip


def _products() -> dict[str, str]:
    return {
        name: _product(name, ptx, columns)
        for ptx in _KINDS
        for columns in _COLUMNS
        for name in (f"wgmma_m64n{columns}k{32 // _BYTES[ptx]}_{ptx}",)
    }


def _passed_products() -> dict[str, str]:
    return {
        name: _passed_product(name, ptx, columns)
        for ptx in _KINDS
        for columns in _COLUMNS
        for name in (f"wgmma_m64n{columns}k{32 // _BYTES[ptx]}_{ptx}_passed",)
    }


def _pairs() -> dict[str, str]:
    return {
        name: _PAIR_TEXT.format(name=name, type=kind, bits=bits)
        for name, (kind, bits) in _PAIRS.items()
    }


# Item i of thread j of four becomes item j of thread i, where an item is a pair of 16 bits.
_EXCHANGE_TEXT = """\
static __device__ __forceinline__ void {name}({type}& first, int x) {{
  {type}* const item = &first;
  unsigned pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pair[i] = (unsigned){bits}(item[2 * i]) | (unsigned){bits}(item[2 * i + 1]) << 16;
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {{
    const bool upper = x & step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {{
      if (i & step) continue;
      const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? pair[i] : pair[i + step], step);
      if (upper) pair[i] = got;
      else pair[i + step] = got;
    }}
  }}
#pragma unroll
  for (int i = 0; i < 8; ++i) item[i] = {made}((unsigned short)(pair[i / 2] >> i % 2 * 16));
}}
"""
_EXCHANGES = {
    "exchange_pairs_f16": ("__half", "__half_as_ushort", "__ushort_as_half"),
    "exchange_pairs_bf16": ("__nv_bfloat16", "__bfloat16_as_ushort", "__ushort_as_bfloat16"),
}


def _exchanges() -> dict[str, str]:
    return {
        name: _EXCHANGE_TEXT.format(name=name, type=kind, bits=bits, made=made)
        for name, (kind, bits, made) in _EXCHANGES.items()
    }


# What all share comes with the fence, which stands before every product.
FENCE, HOLD, TURN = "wgmma_fence", "wgmma_hold", "warpgroup_turn"


def warpgroup_helpers() -> dict[str, str]:
    """Return the functions by name, as text."""
    return {
        FENCE: _SHARED_TEXT,
        HOLD: _HOLD_TEXT,
        TURN: _TURN_TEXT,
        **_products(),
        **_passed_products(),
        **_pairs(),
        **_exchanges(),
    }


def warpgroup_functions() -> dict[str, dict[str, str]]:
    """Return how calls of them are written."""
    turns, places = "<{7}, {8}>", "({0}, {1}, {2}, {3}, {4}, {5}, {6})"
    table = {name: f"#{name}{turns}{places}" for name in _products()}
    passed = ", ".join(f"{{{i}}}" for i in range(8))
    table |= {
        name: f"#{name}({passed})" if "tf32" in name else f"#{name}<{{8}}>({passed})"
        for name in _passed_products()
    }
    table |= {name: f"#{name}({{0}}, {{1}})" for name in (*_PAIRS, *_EXCHANGES)}
    table |= {
        FENCE: f"#{FENCE}()",
        "wgmma_commit": "wgmma_commit()",
        "wgmma_wait": "wgmma_wait<{0}>()",
        "wgmma_sums": "wgmma_sums<{1}>({0})",
        HOLD: f"#{HOLD}({{0}})",
        TURN: f"#{TURN}<{{0}}>()",
        "wgmma_show": "wgmma_show()",
    }
    return {name: {"*": text} for name, text in table.items()}
