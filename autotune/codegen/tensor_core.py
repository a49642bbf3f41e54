"""The instruction of tensor cores as a CUDA function: m16n8k16 on 16-bit floats, sums in float32.

A thread passes its sums, which are updated, and its fragments: four pairs of A, and of B for four
steps two neighbouring columns, of which it has the second if ``odd`` is 1 (PTX ISA, "Matrix
fragments for mma.m16n8k16 with floating point type"). The emulator, which has no such instruction,
passes elements between the threads of a warp by shuffles.
"""

from __future__ import annotations

_TEXT = """\
static __device__ __forceinline__ void {name}(
    float& c0, float& c1, float& c2, float& c3,
    {type} a0, {type} a1, {type} a2, {type} a3, {type} a4, {type} a5, {type} a6, {type} a7,
    {type} b0, {type} b1, {type} b2, {type} b3,
    {type} b4, {type} b5, {type} b6, {type} b7, int odd) {{
#ifdef AUTOTUNE_EMULATE
  const {type} left[2][4] = {{{{a0, a1, a4, a5}}, {{a2, a3, a6, a7}}}};
  const {type} right[4][2] = {{{{b0, b1}}, {{b2, b3}}, {{b4, b5}}, {{b6, b7}}}};
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x & 31;
  float* const sums[4] = {{&c0, &c1, &c2, &c3}};
  for (int k = 0; k < 16; ++k) {{
    for (int e = 0; e < 4; ++e) {{
      const float a = {wide}(left[e / 2][k / 8 * 2 + k % 2]);
      const float b = {wide}(right[k / 8 * 2 + k % 2][odd]);
      const float mine = __shfl_sync(0xffffffffu, a, lane / 4 * 4 + k % 8 / 2);
      const float other = __shfl_sync(0xffffffffu, b, (lane % 4 * 2 + e % 2) * 4 + k % 8 / 2);
      *sums[e] += mine * other;
    }}
  }}
#else
#define AUTOTUNE_PAIR(low, high) ((unsigned){bits}(low) | (unsigned){bits}(high) << 16)
  const unsigned left0 = AUTOTUNE_PAIR(a0, a1), left1 = AUTOTUNE_PAIR(a2, a3);
  const unsigned left2 = AUTOTUNE_PAIR(a4, a5), left3 = AUTOTUNE_PAIR(a6, a7);
  const unsigned halves = odd ? 0x7632 : 0x5410;
  const unsigned right0 = __byte_perm(AUTOTUNE_PAIR(b0, b1), AUTOTUNE_PAIR(b2, b3), halves);
  const unsigned right1 = __byte_perm(AUTOTUNE_PAIR(b4, b5), AUTOTUNE_PAIR(b6, b7), halves);
#undef AUTOTUNE_PAIR
  asm("mma.sync.aligned.m16n8k16.row.col.f32.{ptx}.{ptx}.f32 "
      "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "r"(right0), "r"(right1));
#endif
}}
"""
_ARGUMENTS = 21
_KINDS = {
    "f16": ("__half", "__half2float", "__half_as_ushort"),
    "bf16": ("__nv_bfloat16", "__bfloat162float", "__bfloat16_as_ushort"),
}


def tensor_core_helpers() -> dict[str, str]:
    """Return the functions by name, as text."""
    return {
        f"mma_m16n8k16_{ptx}": _TEXT.format(
            name=f"mma_m16n8k16_{ptx}", type=kind, wide=wide, bits=bits, ptx=ptx
        )
        for ptx, (kind, wide, bits) in _KINDS.items()
    }


def tensor_core_functions() -> dict[str, dict[str, str]]:
    """Return how calls of them are written."""
    places = ", ".join(f"{{{i}}}" for i in range(_ARGUMENTS))
    return {name: {"*": f"#{name}({places})"} for name in tensor_core_helpers()}
