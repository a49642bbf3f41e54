// Inline PTX that copies boxes of tensors (TMA). What a tensor map says is read off its words as the
// driver encodes them (580, compute capability 9.0).
#pragma once

#include "ptx.h"

namespace emulator {

constexpr int most_rank = 5;

struct TensorCopy {
  const PtxRun& run;
  const uint32_t* words;
  int rank, item_bytes, swizzle;
  uint64_t extents[most_rank], strides[most_rank];
  int32_t begin[most_rank];  // of the box
  Flight flight;             // what accesses shared memory

  EMULATOR_QUIET void read(int map_at, int expected_rank) {
    words = reinterpret_cast<const uint32_t*>(run.value(map_at));
    // Kinds of items: 16-bit floats of both kinds, and floats.
    const uint32_t kind = words[2] >> 7 & 15;
    item_bytes = kind == 6 || kind == 10 ? 2 : kind == 7 ? 4 : 0;
    rank = static_cast<int>(words[2] >> 4 & 7) + 1;
    swizzle = static_cast<int>(words[2] >> 13 & 3);
    if (rank != expected_rank || !item_bytes || (words[2] & 1) != run.has(".im2col"))
      fail(EMULATOR_THREAD " copies " EMULATOR_PTX_AT " with `%s` by a tensor map of %d dimensions, "
           "of items of kind %u, in mode %u",
           EMULATOR_WHERE(current), EMULATOR_PTX_LINE(run), run.now->name, rank, kind, words[2] & 1);
    for (int i = 0; i < rank; ++i) {
      extents[i] = uint64_t{words[8 + i]} + 1;
      const uint64_t high = words[7] >> 4 * (i ? i - 1 : 0) & 15;
      strides[i] = i ? (high << 32 | words[2 + i]) << 4 : static_cast<uint64_t>(item_bytes);
      begin[i] = static_cast<int32_t>(run.word(map_at + 1 + i));
    }
  }

  EMULATOR_QUIET uint64_t address() const { return uint64_t{words[1]} << 32 | words[0]; }

  // Where a vector of 16 bytes of a box is; the swizzle is one of addresses.
  EMULATOR_QUIET char* place(char* box, uint32_t offset) const {
    if (!swizzle) return box + offset;
    const uint32_t at = shared_address(box) & 0xffffff, whole = at + offset;
    const uint32_t mask = (1u << swizzle) - 1;
    return box + ((whole ^ (whole >> 7 & mask) << 4) - at);
  }

  // Copies a row of a box, of items from `first` on along the first dimension; `row` is null where
  // the box is outside of the tensor.
  EMULATOR_QUIET void copy_row(char* box, uint32_t offset, char* row, int64_t first, uint32_t count, bool store) const {
    const uint32_t each = 16 / static_cast<uint32_t>(item_bytes);
    for (uint32_t i = 0; i < count; i += each) {
      char* const shared = place(box, offset + i * static_cast<uint32_t>(item_bytes));
      const int64_t left = static_cast<int64_t>(extents[0]) - (first + i);
      int64_t here = row ? (left < 0 ? 0 : left < each ? left : each) : 0, skipped = 0;
      if (row && first + i < 0) skipped = -(first + i) < each ? -(first + i) : each;
      if (here < skipped) here = skipped;
      const uint32_t bytes = static_cast<uint32_t>((here - skipped) * item_bytes);
      const int64_t lead = skipped * item_bytes;
      char* const there = row ? row + (first + i) * item_bytes + lead : nullptr;
      if (bytes) run.touch(there, bytes, store ? Access::write : Access::read);
      if (store) {
        if (bytes) run.touch(shared + lead, bytes, Access::read, flight), memcpy(there, shared + lead, bytes);
        continue;
      }
      run.touch(shared, 16, Access::write, flight);
      settle();
      memset(shared, 0, 16);
      if (bytes) memcpy(shared + lead, there, bytes);
    }
  }

  // Copies a box in tiled mode; returns its bytes.
  EMULATOR_QUIET uint32_t copy_tile(char* box, bool store) const {
    uint32_t sizes[most_rank], rows = 1;
    const uint64_t packed = uint64_t{words[14]} << 8 | words[13] >> 24;
    for (int i = 0; i < rank; ++i) sizes[i] = static_cast<uint32_t>(packed >> 8 * i & 0xff) + 1;
    for (int i = 1; i < rank; ++i) rows *= sizes[i];
    const uint32_t row_bytes = sizes[0] * static_cast<uint32_t>(item_bytes);
    check_box(box, row_bytes);
    bool outside = begin[0] >= static_cast<int64_t>(extents[0]) || begin[0] + int64_t{sizes[0]} <= 0;
    for (uint32_t number = 0; number < rows; ++number) {
      uint64_t at = address();
      bool exists = true;
      uint32_t rest = number;
      for (int i = 1; i < rank; rest /= sizes[i], ++i) {
        const int64_t index = begin[i] + static_cast<int64_t>(rest % sizes[i]);
        exists = exists && index >= 0 && static_cast<uint64_t>(index) < extents[i];
        at += static_cast<uint64_t>(index) * strides[i];
      }
      copy_row(box, number * row_bytes, exists && !outside ? reinterpret_cast<char*>(at) : nullptr,
               begin[0], sizes[0], store);
    }
    return rows * row_bytes;
  }

  // Copies pixels in im2col mode, of images as [number, rows, columns, channels]; returns the bytes.
  EMULATOR_QUIET uint32_t copy_pixels(char* box, uint32_t x, uint32_t y) const {
    const uint32_t channels = (words[13] >> 24) + 1, pixels = (words[15] & 0x3ff) + 1;
    const int step_x = static_cast<int>(words[13] >> 3 & 7) + 1, step_y = static_cast<int>(words[13] >> 6 & 7) + 1;
    const int low_x = static_cast<int8_t>(words[14]), low_y = static_cast<int8_t>(words[14] >> 8);
    const int end_x = static_cast<int>(extents[1]) + static_cast<int8_t>(words[14] >> 16);
    const int end_y = static_cast<int>(extents[2]) + static_cast<int8_t>(words[14] >> 24);
    const uint32_t row_bytes = channels * static_cast<uint32_t>(item_bytes);
    check_box(box, row_bytes);
    int64_t column = begin[1], line = begin[2], image = begin[3];
    for (uint32_t pixel = 0; pixel < pixels; ++pixel) {
      const int64_t at_x = column + static_cast<int16_t>(x), at_y = line + static_cast<int16_t>(y);
      const bool exists = image >= 0 && image < static_cast<int64_t>(extents[3]) && at_x >= 0 && at_y >= 0 &&
                          at_x < static_cast<int64_t>(extents[1]) && at_y < static_cast<int64_t>(extents[2]);
      const uint64_t at = address() + static_cast<uint64_t>(image) * strides[3] +
                          static_cast<uint64_t>(at_y) * strides[2] + static_cast<uint64_t>(at_x) * strides[1];
      copy_row(box, pixel * row_bytes, exists ? reinterpret_cast<char*>(at) : nullptr, begin[0], channels, false);
      if ((column += step_x) < end_x) continue;
      column = low_x;
      if ((line += step_y) < end_y) continue;
      line = low_y, ++image;
    }
    return pixels * row_bytes;
  }

  EMULATOR_QUIET void check_box(const char* box, uint32_t row_bytes) const {
    const uint32_t alignment = swizzle ? 128 : 16;
    if ((shared_address(box) & 0xffffff) % alignment || row_bytes % 16 || (swizzle && row_bytes > 16u << swizzle))
      fail(EMULATOR_THREAD " copies a box of rows of %u bytes " EMULATOR_PTX_AT
           "; expected an address that is a multiple of %u, and rows of multiples of 16%s",
           EMULATOR_WHERE(current), row_bytes, EMULATOR_PTX_LINE(run), alignment,
           swizzle ? " within the span of the swizzle" : "");
  }
};

// Loads a box: into the shared memory of this block, or of each whose bit is set (multicast).
EMULATOR_OWN void ptx_tensor_load(PtxRun& run) {
  TensorCopy copy = {run, nullptr, 0, 0, 0, {}, {}, {}, no_flight};
  copy.read(1, run.now->name[strcspn(run.now->name, "12345")] - '0');
  const int barrier_at = 2 + copy.rank, last = run.now->word_count - 1;
  const bool im2col = run.has(".im2col"), multicast = run.has(".multicast");
  const uint32_t blocks = multicast ? run.word(last) & 0xffff : 1;
  for (uint32_t rank = 0; blocks >> rank; ++rank) {
    if (!(blocks >> rank & 1)) continue;
    const uint32_t to = multicast ? map_rank(run.word(0), rank) : run.word(0);
    void* const barrier =
        generic_address(multicast ? map_rank(run.word(barrier_at), rank) : run.word(barrier_at));
    const Flight flight = load_flight(barrier, run.site);
    memcpy(&copy.flight, &flight, sizeof flight);
    char* const box = static_cast<char*>(generic_address(to));
    const uint32_t bytes = im2col ? copy.copy_pixels(box, run.word(barrier_at + 1), run.word(barrier_at + 2))
                                  : copy.copy_tile(box, false);
    mbarrier_complete_tx(barrier, static_cast<int>(bytes), run.site);
  }
}

EMULATOR_OWN void ptx_tensor_store(PtxRun& run) {
  TensorCopy copy = {run, nullptr, 0, 0, 0, {}, {}, {}, own_flight(Engine::store, current->stores.group, run.site)};
  copy.read(0, run.now->name[strcspn(run.now->name, "12345")] - '0');
  copy.copy_tile(static_cast<char*>(generic_address(run.word(run.now->word_count - 1))), true);
}
EMULATOR_OWN void ptx_store_commit(PtxRun&) { ++current->stores.group; }
EMULATOR_OWN void ptx_store_wait(PtxRun& run) { wait_groups(current->stores, run.word(0)); }

}  // namespace emulator
