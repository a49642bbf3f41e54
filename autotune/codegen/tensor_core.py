"""Instructions of tensor cores as CUDA functions, with sums in float32.

They are m16n8k16 of 16-bit floats and m16n8k8 of floats that are rounded to TF32. A thread passes
its sums, which are updated, and its fragments: pairs of A, of two rows, and steps of one column of
B (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type" and those "for
mma.m16n8k8"). The emulator, which has no such instruction, passes elements between the threads of
a warp by shuffles.
"""

from __future__ import annotations

_TEXT = """\
static __device__ __forceinline__ unsigned {name}_pair({type} low, {type} high) {{
  return (unsigned){bits}(low) | (unsigned){bits}(high) << 16;
}}

static __device__ __forceinline__ void {name}_words(
    float& c0, float& c1, float& c2, float& c3,
    {type} a0, {type} a1, {type} a2, {type} a3, {type} a4, {type} a5, {type} a6, {type} a7,
    unsigned right0, unsigned right1) {{
#ifdef AUTOTUNE_EMULATE
  const {type} left[2][4] = {{{{a0, a1, a4, a5}}, {{a2, a3, a6, a7}}}};
  const unsigned right[2] = {{right0, right1}};
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x & 31;
  float* const sums[4] = {{&c0, &c1, &c2, &c3}};
  for (int k = 0; k < 16; ++k) {{
    for (int e = 0; e < 4; ++e) {{
      const float a = {wide}(left[e / 2][k / 8 * 2 + k % 2]);
      const float b = {wide}({of_bits}((unsigned short)(right[k / 8] >> k % 2 * 16)));
      const float mine = __shfl_sync(0xffffffffu, a, lane / 4 * 4 + k % 8 / 2);
      const float other = __shfl_sync(0xffffffffu, b, (lane % 4 * 2 + e % 2) * 4 + k % 8 / 2);
      *sums[e] += mine * other;
    }}
  }}
#else
  const unsigned left0 = {name}_pair(a0, a1), left1 = {name}_pair(a2, a3);
  const unsigned left2 = {name}_pair(a4, a5), left3 = {name}_pair(a6, a7);
  asm("mma.sync.aligned.m16n8k16.row.col.f32.{ptx}.{ptx}.f32 "
      "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "r"(right0), "r"(right1));
#endif
}}

static __device__ __forceinline__ void {name}(
    float& c0, float& c1, float& c2, float& c3,
    {type} a0, {type} a1, {type} a2, {type} a3, {type} a4, {type} a5, {type} a6, {type} a7,
    {type} b0, {type} b1, {type} b2, {type} b3) {{
  {name}_words(c0, c1, c2, c3, a0, a1, a2, a3, a4, a5, a6, a7,
               {name}_pair(b0, b1), {name}_pair(b2, b3));
}}
"""
# Steps 2 x and 2 x + 1 of a thread are x and x + 4 of the instruction.
_TF32_TEXT = """\
static __device__ __forceinline__ unsigned {name}_rounded(float value) {{
  unsigned bits;
#ifdef AUTOTUNE_EMULATE
  bits = __float_as_uint(value);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#endif
  return bits;
}}

static __device__ __forceinline__ void {name}(
    float& c0, float& c1, float& c2, float& c3, float a0, float a1, float a2, float a3,
    float b0, float b1) {{
  const unsigned left0 = {name}_rounded(a0), left1 = {name}_rounded(a2);
  const unsigned left2 = {name}_rounded(a1), left3 = {name}_rounded(a3);
  const unsigned right0 = {name}_rounded(b0);
  const unsigned right1 = {name}_rounded(b1);
#ifdef AUTOTUNE_EMULATE
  const unsigned left[2][2] = {{{{left0, left2}}, {{left1, left3}}}};
  const unsigned right[2] = {{right0, right1}};
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x & 31;
  float* const sums[4] = {{&c0, &c1, &c2, &c3}};
  for (int k = 0; k < 8; ++k) {{
    for (int e = 0; e < 4; ++e) {{
      const float a = __uint_as_float(left[e / 2][k / 4]), b = __uint_as_float(right[k / 4]);
      const float mine = __shfl_sync(0xffffffffu, a, lane / 4 * 4 + k % 4);
      const float other = __shfl_sync(0xffffffffu, b, (lane % 4 * 2 + e % 2) * 4 + k % 4);
      *sums[e] += mine * other;
    }}
  }}
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "r"(right0), "r"(right1));
#endif
}}
"""
_TF32_NAME = "mma_m16n8k8_tf32"
# Sums, elements of A, and elements of B.
_ARGUMENTS, _TF32_ARGUMENTS = 4 + 8 + 4, 4 + 4 + 2
_KINDS = {
    "f16": ("__half", "__half2float", "__half_as_ushort", "__ushort_as_half"),
    "bf16": ("__nv_bfloat16", "__bfloat162float", "__bfloat16_as_ushort", "__ushort_as_bfloat16"),
}


def tensor_core_helpers() -> dict[str, str]:
    """Return the functions by name, as text."""
    texts = {_TF32_NAME: _TF32_TEXT.format(name=_TF32_NAME)}
    for ptx, (kind, wide, bits, of_bits) in _KINDS.items():
        name = f"mma_m16n8k16_{ptx}"
        words = {"name": name, "type": kind, "wide": wide, "bits": bits, "ptx": ptx}
        texts[name] = _TEXT.format(**words, of_bits=of_bits)
    return texts


def tensor_core_functions() -> dict[str, dict[str, str]]:
    """Return how calls of them are written."""
    counts = dict.fromkeys(tensor_core_helpers(), _ARGUMENTS) | {_TF32_NAME: _TF32_ARGUMENTS}
    return {
        name: {"*": f"#{name}({', '.join(f'{{{i}}}' for i in range(count))})"}
        for name, count in counts.items()
    }
