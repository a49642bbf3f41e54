"""Kernels of single accesses and of 8-bit floats in PTX, as those of ptx_kernels.py."""

from tests.emulator.ptx_kernels import Ptx


def _to_fp8(source):
    """Return a kernel that converts pairs of floats, or of halves, in all four ways."""
    body = ["  unsigned short w;"]
    kinds = [f"{relu}{form}" for relu in ("", "relu.") for form in ("e4m3x2", "e5m2x2")]
    for number, kind in enumerate(kinds):
        name = f"cvt.rn.satfinite.{kind}.{source}"
        for k in range(4):
            at = f"{64 * k} + 2 * lane"
            operands = (
                f'"f"(__uint_as_float(a[{at}])), "f"(__uint_as_float(a[{at} + 1]))'
                if source == "f32"
                else f'"r"(a[{32 * k} + lane])'
            )
            text = f"{name} %0, %1, %2;" if source == "f32" else f"{name} %0, %1;"
            body.append(f'  asm volatile("{text}" : "=h"(w) : {operands});')
            body.append(f"  b[{128 * number + 32 * k} + lane] = w;")
    return Ptx("\n".join(body), words="floats" if source == "f32" else "bits")


def _from_fp8():
    """Return a kernel that converts pairs of 8-bit floats to halves."""
    body = ["  unsigned w;"]
    kinds = [f"{relu}f16x2.{form}" for relu in ("", "relu.") for form in ("e4m3x2", "e5m2x2")]
    for number, kind in enumerate(kinds):
        for k in range(8):
            code = f"(unsigned short)(({32 * k} + lane) | (255 - {32 * k} - lane) << 8)"
            body.append(f'  asm volatile("cvt.rn.{kind} %0, %1;" : "=r"(w) : "h"({code}));')
            body.append(f"  b[{256 * number + 32 * k} + lane] = w;")
    return Ptx("\n".join(body))


def _atomics():
    """Return a kernel in which each thread has words of its own: the order is no matter."""
    words = [
        "atom.global.add.u32", "atom.relaxed.gpu.global.min.s32", "atom.acquire.cta.max.u32",
        "atom.global.and.b32", "atom.release.gpu.global.or.b32", "atom.acq_rel.sys.global.xor.b32",
        "atom.global.inc.u32", "atom.global.dec.u32", "atom.relaxed.cta.global.exch.b32",
        "atom.global.max.s32", "atom.global.min.u32",
    ]  # fmt: skip
    body = ["  unsigned old;"]
    for k, name in enumerate(words):
        at = f"&b[{64 * k} + lane]"
        body += [
            f"  b[{64 * k} + lane] = a[{32 * k} + lane];",
            f'  asm volatile("{name} %0, [%1], %2;"',
            f'      : "=r"(old) : "l"({at}), "r"(a[lane]) : "memory");',
            f"  b[{64 * k + 32} + lane] = old;",
        ]
    body.append(
        """
  unsigned long long* const wide = (unsigned long long*)(b + 768) + lane;
  *wide = a[lane];
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;"
               :: "l"(wide), "l"(a[lane] * 3ull) : "memory");
  b[832 + lane] = 0;
  asm volatile("red.global.add.f32 [%0+4], %1;" :: "l"(&b[831 + lane]), "f"(0.5f) : "memory");
  b[864 + lane] = lane;
  asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old) : "l"(&b[864 + lane]), "r"(lane & 7), "r"(99) : "memory");
  b[896 + lane] = old;
  __shared__ unsigned sum[4];
  if (lane < 4) sum[lane] = 0;
  __syncwarp();
  asm volatile("red.shared.add.u32 [%0], %1;"
               :: "r"(place(&sum[lane % 4])), "r"(a[lane]) : "memory");
  asm volatile("red.release.cta.shared::cta.max.u32 [%0], %1;"
               :: "r"(place(&sum[lane % 4])), "r"(7) : "memory");
  __syncwarp();
  if (lane < 4) b[928 + lane] = sum[lane];"""
    )
    return Ptx("\n".join(body))


_LOADS = """
  int narrow;
  unsigned w, x[4];
  unsigned long long wide;
  const char* const at = (const char*)a + 16 * lane;
  asm volatile("ld.global.s8 %0, [%1+1];" : "=r"(narrow) : "l"(at) : "memory");
  b[lane] = narrow;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(w) : "l"(at) : "memory");
  b[32 + lane] = w;
  asm volatile("ld.global.s16 %0, [%1+2];" : "=r"(narrow) : "l"(at) : "memory");
  b[64 + lane] = narrow;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "l"(at));
  b[96 + lane] = x[0] + x[1] * x[2] - x[3];
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(wide) : "l"(at) : "memory");
  b[128 + lane] = (unsigned)(wide >> 16);
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(w) : "l"(at) : "memory");
  asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(&b[160 + lane]), "r"(w) : "memory");
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(w) : "l"(at) : "memory");
  asm volatile("st.volatile.global.u32 [%0], %1;" :: "l"(&b[192 + lane]), "r"(w) : "memory");
  asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};"
               :: "l"(&b[224 + 2 * lane]), "r"(lane), "r"(~lane) : "memory");
  b[288 + lane] = 0;
  asm volatile("st.global.u8 [%0+1], %1;" :: "l"(&b[288 + lane]), "r"(lane + 1000) : "memory");
  __shared__ unsigned s[32];
  asm volatile("st.relaxed.cta.shared.u32 [%0], %1;"
               :: "r"(place(&s[lane])), "r"(lane * 3) : "memory");
  asm volatile("fence.acq_rel.cta;" ::: "memory");
  __syncwarp();
  asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];"
               : "=r"(w) : "r"(place(&s[lane ^ 5])) : "memory");
  asm volatile("membar.gl;" ::: "memory");
  b[320 + lane] = w;
"""

KERNELS = {
    "fp8-of-floats": _to_fp8("f32"),
    "fp8-of-halves": _to_fp8("f16x2"),
    "halves-of-fp8": _from_fp8(),
    "atomics": _atomics(),
    "loads-and-stores": Ptx(_LOADS),
}
