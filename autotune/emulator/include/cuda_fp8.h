// The 8-bit floating-point types e4m3 and e5m2, alone and as vectors of two and four, and what converts
// them. The types of scales, e8m0, are not among them.
#pragma once

#include "autotune_emulator.h"
#include "emulator/fp8.h"

#define __CUDA_FP8_TYPES_EXIST__

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

namespace emulator {

template <class T>
static inline uint8_t to_fp8_as(T value, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {
  const bool saturates = saturate == __NV_SATFINITE;
  return format == __NV_E4M3 ? to_fp8<E4m3>(value, saturates) : to_fp8<E5m2>(value, saturates);
}

static inline uint16_t fp8_pair(uint8_t low, uint8_t high) { return static_cast<uint16_t>(low | high << 8); }

}  // namespace emulator

// Operands are references: of what a call copies without a constructor the compiler watches no read.
static inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                        __nv_fp8_interpretation_t format) {
  return emulator::to_fp8_as(x, saturate, format);
}
static inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t format) {
  return emulator::to_fp8_as(x, saturate, format);
}
#define EMULATOR_FROM_RAW(name, Raw, Format)                                                                \
  static inline __nv_fp8_storage_t __nv_cvt_##name##raw_to_fp8(const Raw##_raw& x, __nv_saturation_t saturate, \
                                                               __nv_fp8_interpretation_t format) {          \
    return emulator::to_fp8_as(emulator::Format::widen(x.x), saturate, format);                             \
  }                                                                                                         \
  static inline __nv_fp8x2_storage_t __nv_cvt_##name##raw2_to_fp8x2(                                        \
      const Raw##2_raw& x, __nv_saturation_t saturate, __nv_fp8_interpretation_t format) {                  \
    return emulator::fp8_pair(emulator::to_fp8_as(emulator::Format::widen(x.x), saturate, format),          \
                              emulator::to_fp8_as(emulator::Format::widen(x.y), saturate, format));         \
  }
EMULATOR_FROM_RAW(half, __half, Binary16)
EMULATOR_FROM_RAW(bfloat16, __nv_bfloat16, Bfloat16)
#undef EMULATOR_FROM_RAW
static inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(const float2& x, __nv_saturation_t saturate,
                                                            __nv_fp8_interpretation_t format) {
  return emulator::fp8_pair(emulator::to_fp8_as(x.x, saturate, format), emulator::to_fp8_as(x.y, saturate, format));
}
static inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(const double2& x, __nv_saturation_t saturate,
                                                             __nv_fp8_interpretation_t format) {
  return emulator::fp8_pair(emulator::to_fp8_as(x.x, saturate, format), emulator::to_fp8_as(x.y, saturate, format));
}
static inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t format) {
  return {format == __NV_E4M3 ? emulator::half_of_fp8<emulator::E4m3>(x) : emulator::half_of_fp8<emulator::E5m2>(x)};
}
static inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t format) {
  return {__nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(x), format).x,
          __nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(x >> 8), format).x};
}

namespace emulator {

// Constructors saturate; integers become floats first, and are made of numbers by dropping the fraction.
template <class Format>
struct Fp8 {
  __nv_fp8_storage_t __x;
  Fp8() = default;
  explicit Fp8(double value) : __x(to_fp8<Format>(value, true)) {}
  explicit Fp8(float value) : __x(to_fp8<Format>(value, true)) {}
  explicit Fp8(const __half& value) : Fp8(static_cast<float>(value)) {}
  explicit Fp8(const __nv_bfloat16& value) : Fp8(static_cast<float>(value)) {}
  explicit operator float() const { return float_of_fp8<Format>(__x); }
  explicit operator double() const { return static_cast<double>(float_of_fp8<Format>(__x)); }
  explicit operator __half() const { return __half::from(half_of_fp8<Format>(__x)); }
  explicit operator __nv_bfloat16() const { return __nv_bfloat16(float_of_fp8<Format>(__x)); }
  explicit operator bool() const { return __x & 0x7F; }
#define EMULATOR_TO(T) \
  explicit operator T() const { return to_integer<T>(truncf(float_of_fp8<Format>(__x))); }
#define EMULATOR_BOTH(T)                                      \
  explicit Fp8(T value) : Fp8(static_cast<float>(value)) {}   \
  EMULATOR_TO(T)
  EMULATOR_BOTH(short)
  EMULATOR_BOTH(unsigned short)
  EMULATOR_BOTH(int)
  EMULATOR_BOTH(unsigned)
  EMULATOR_BOTH(long)
  EMULATOR_BOTH(unsigned long)
  EMULATOR_BOTH(long long)
  EMULATOR_BOTH(unsigned long long)
  EMULATOR_TO(char)
  EMULATOR_TO(signed char)
  EMULATOR_TO(unsigned char)
#undef EMULATOR_BOTH
#undef EMULATOR_TO
};

template <class Format>
struct __attribute__((aligned(2))) Fp8x2 {
  __nv_fp8x2_storage_t __x;
  Fp8x2() = default;
  explicit Fp8x2(const float2& v) : Fp8x2(v.x, v.y) {}
  explicit Fp8x2(const double2& v) : Fp8x2(v.x, v.y) {}
  explicit Fp8x2(const __half2& v) : Fp8x2(static_cast<float>(v.x), static_cast<float>(v.y)) {}
  explicit Fp8x2(const __nv_bfloat162& v) : Fp8x2(static_cast<float>(v.x), static_cast<float>(v.y)) {}
  explicit operator float2() const {
    return {float_of_fp8<Format>(static_cast<uint8_t>(__x)), float_of_fp8<Format>(static_cast<uint8_t>(__x >> 8))};
  }
  explicit operator __half2() const {
    return {__half::from(half_of_fp8<Format>(static_cast<uint8_t>(__x))),
            __half::from(half_of_fp8<Format>(static_cast<uint8_t>(__x >> 8)))};
  }

 private:
  template <class T>
  Fp8x2(T low, T high) : __x(fp8_pair(to_fp8<Format>(low, true), to_fp8<Format>(high, true))) {}
};

template <class Format>
struct __attribute__((aligned(4))) Fp8x4 {
  __nv_fp8x4_storage_t __x;
  Fp8x4() = default;
  explicit Fp8x4(const float4& v) : Fp8x4(Fp8x2<Format>(float2{v.x, v.y}), Fp8x2<Format>(float2{v.z, v.w})) {}
  explicit Fp8x4(const double4& v) : Fp8x4(Fp8x2<Format>(double2{v.x, v.y}), Fp8x2<Format>(double2{v.z, v.w})) {}
  explicit Fp8x4(const __half2& low, const __half2& high) : Fp8x4(Fp8x2<Format>(low), Fp8x2<Format>(high)) {}
  explicit Fp8x4(const __nv_bfloat162& low, const __nv_bfloat162& high)
      : Fp8x4(Fp8x2<Format>(low), Fp8x2<Format>(high)) {}
  explicit operator float4() const {
    return {float_of_fp8<Format>(static_cast<uint8_t>(__x)), float_of_fp8<Format>(static_cast<uint8_t>(__x >> 8)),
            float_of_fp8<Format>(static_cast<uint8_t>(__x >> 16)), float_of_fp8<Format>(static_cast<uint8_t>(__x >> 24))};
  }

 private:
  Fp8x4(const Fp8x2<Format>& low, const Fp8x2<Format>& high)
      : __x(low.__x | static_cast<uint32_t>(high.__x) << 16) {}
};

}  // namespace emulator

using __nv_fp8_e4m3 = emulator::Fp8<emulator::E4m3>;
using __nv_fp8_e5m2 = emulator::Fp8<emulator::E5m2>;
using __nv_fp8x2_e4m3 = emulator::Fp8x2<emulator::E4m3>;
using __nv_fp8x2_e5m2 = emulator::Fp8x2<emulator::E5m2>;
using __nv_fp8x4_e4m3 = emulator::Fp8x4<emulator::E4m3>;
using __nv_fp8x4_e5m2 = emulator::Fp8x4<emulator::E5m2>;
