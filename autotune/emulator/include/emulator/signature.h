// The parameters of a kernel, compared at compile time with the arguments of its launch.
#pragma once

#include <stddef.h>

#include <type_traits>

#include "half.h"

namespace emulator {

enum class Kind { address, integer, real, half, bfloat16, truth, other };

template <class T>
constexpr Kind kind_of() {
  if (std::is_pointer_v<T>) return Kind::address;
  if (std::is_same_v<T, bool>) return Kind::truth;
  if (std::is_integral_v<T>) return Kind::integer;
  if (std::is_floating_point_v<T>) return Kind::real;
  if (std::is_same_v<T, __half>) return Kind::half;
  if (std::is_same_v<T, __nv_bfloat16>) return Kind::bfloat16;
  return Kind::other;
}

template <class Kernel>
struct Signature;
template <class... Parameters>
struct Signature<void (*)(Parameters...)> {
  static constexpr size_t count = sizeof...(Parameters);
  // Whether parameter `i` has this kind and size; a missing parameter is another error.
  static constexpr bool takes(size_t i, Kind kind, size_t bytes) {
    constexpr Kind kinds[] = {kind_of<std::remove_cv_t<Parameters>>()..., Kind::other};
    constexpr size_t sizes[] = {sizeof(Parameters)..., 0};
    if (i >= count) return true;
    bool as_bits = kind == Kind::bfloat16 && kinds[i] == Kind::integer;
    return (kinds[i] == kind || as_bits) && (kind == Kind::address || sizes[i] == bytes);
  }
};

}  // namespace emulator
