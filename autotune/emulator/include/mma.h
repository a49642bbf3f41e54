// Warp matrix operations: nvcuda::wmma. Elements of a fragment are distributed over the lanes in an
// unspecified order, as on a device; mma_sync goes through a scratch array of the warp.
#pragma once

#include "autotune_emulator.h"

namespace emulator {

struct MatrixScratch {
  double a[1024], b[1024];  // the largest operand is 32 x 16
};
static MatrixScratch matrix_scratch[most_warps];

// Waits until all lanes have reached the same point of a matrix operation.
EMULATOR_RAW static void matrix_step(int line) {
  together("wmma", matrix_barrier, 0xffffffffu, 0, 0, 32, line);
}

EMULATOR_RAW static MatrixScratch& own_scratch() {
  return matrix_scratch[(current - threads) / 32];
}

}  // namespace emulator

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

template <class T> struct storage { using type = T; };
template <> struct storage<precision::tf32> { using type = float; };

template <class Use, int M, int N, int K> struct extent;
template <int M, int N, int K> struct extent<matrix_a, M, N, K> {
  static constexpr int rows = M, columns = K;
};
template <int M, int N, int K> struct extent<matrix_b, M, N, K> {
  static constexpr int rows = K, columns = N;
};
template <int M, int N, int K> struct extent<accumulator, M, N, K> {
  static constexpr int rows = M, columns = N;
};

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  using element_type = typename storage<T>::type;
  using storage_element_type = element_type;
  static constexpr int rows = extent<Use, M, N, K>::rows;
  static constexpr int columns = extent<Use, M, N, K>::columns;
  static constexpr int num_elements = rows * columns / 32;
  static constexpr int num_storage_elements = num_elements;
  element_type x[num_elements];
};

static inline float __float_to_tf32(float value) {
  return emulator::bits_float((emulator::float_bits(value) + 0x1000u) & 0xFFFFE000u);
}

template <class F>
static inline size_t offset_of(int element, unsigned stride, bool by_rows) {
  int flat = emulator::own_lane() * F::num_elements + element;
  size_t row = static_cast<size_t>(flat / F::columns), column = static_cast<size_t>(flat % F::columns);
  return by_rows ? row * stride + column : column * stride + row;
}

template <class Use, int M, int N, int K, class T, class Layout, class V>
static inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, const V& value) {
  for (auto& x : f.x) x = static_cast<typename storage<T>::type>(value);
}

template <class T> struct is_row { static constexpr bool value = false; };
template <> struct is_row<row_major> { static constexpr bool value = true; };

template <class Use, int M, int N, int K, class T, class Layout, class P>
static inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const P* from,
                                    unsigned stride, int line = __builtin_LINE()) {
  emulator::matrix_step(line);
  using F = fragment<Use, M, N, K, T, Layout>;
  for (int i = 0; i < F::num_elements; ++i)
    f.x[i] = from[offset_of<F>(i, stride, is_row<Layout>::value)];
}

template <int M, int N, int K, class T, class P>
static inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const P* from,
                                    unsigned stride, layout_t layout, int line = __builtin_LINE()) {
  emulator::matrix_step(line);
  using F = fragment<accumulator, M, N, K, T>;
  for (int i = 0; i < F::num_elements; ++i)
    f.x[i] = from[offset_of<F>(i, stride, layout == mem_row_major)];
}

template <int M, int N, int K, class T, class P>
static inline void store_matrix_sync(P* to, const fragment<accumulator, M, N, K, T>& f,
                                     unsigned stride, layout_t layout,
                                     int line = __builtin_LINE()) {
  emulator::matrix_step(line);
  using F = fragment<accumulator, M, N, K, T>;
  for (int i = 0; i < F::num_elements; ++i)
    to[offset_of<F>(i, stride, layout == mem_row_major)] = f.x[i];
}

template <class Number>
EMULATOR_RAW static void share(double* all, const Number* own, int count) {
  for (int i = 0; i < count; ++i)
    all[emulator::own_lane() * count + i] = static_cast<double>(static_cast<float>(own[i]));
}

template <int M, int N, int K, class T, class U, class A, class LA, class B, class LB>
static inline void mma_sync(fragment<accumulator, M, N, K, T>& d,
                            const fragment<matrix_a, M, N, K, A, LA>& a,
                            const fragment<matrix_b, M, N, K, B, LB>& b,
                            const fragment<accumulator, M, N, K, U>& c,
                            int line = __builtin_LINE()) {
  emulator::MatrixScratch& all = emulator::own_scratch();
  share(all.a, a.x, a.num_elements);
  share(all.b, b.x, b.num_elements);
  emulator::matrix_step(line);
  for (int i = 0; i < d.num_elements; ++i) {
    int flat = emulator::own_lane() * d.num_elements + i, row = flat / N, column = flat % N;
    double sum = 0;
    for (int k = 0; k < K; ++k) sum += all.a[row * K + k] * all.b[k * N + column];
    d.x[i] = static_cast<T>(sum + static_cast<double>(static_cast<float>(c.x[i])));
  }
  emulator::matrix_step(line);
}

}  // namespace wmma
}  // namespace nvcuda
