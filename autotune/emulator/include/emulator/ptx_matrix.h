// Inline PTX of tensor cores: fragments of matrices in registers, mma and wgmma.
#pragma once

#include "ptx.h"

namespace emulator {

// What a lane gives to the others of its warp: they read it between two arrivals of all.
struct Given {
  uint32_t words[8];
};

struct EMULATOR_HIDDEN WarpExchange {
  const PtxRun& run;

  EMULATOR_QUIET void meet(const Given* given) const {
    together(run.now->name, matrix_barrier, 0xffffffffu, reinterpret_cast<uint64_t>(given), 0, 32,
             run.line.number);
  }
  EMULATOR_QUIET const Given& of(int lane) const {
    const Thread& t = threads[own_warp() * 32 + lane];
    return *reinterpret_cast<const Given*>(t.value);
  }
};

EMULATOR_OWN int own_lane() { return static_cast<int>(current - threads) % 32; }

// Loads or stores 8 x 8 matrices of 16-bit items: lane i passes the address of row i % 8 of matrix
// i / 8, and holds a word of row i / 4 of each; transposed, two items of a column.
EMULATOR_OWN char* ptx_row(const PtxRun& run, int at, Access access) {
  char* const row = static_cast<char*>(generic_address(run.word(at)));
  if (reinterpret_cast<uintptr_t>(row) % 16)
    fail(EMULATOR_THREAD " passes a row " EMULATOR_PTX_AT " that is not aligned to 16 bytes",
         EMULATOR_WHERE(current), EMULATOR_PTX_LINE(run));
  run.touch(row, 16, access);
  settle();
  return row;
}

EMULATOR_OWN void ptx_load_matrices(PtxRun& run) {
  const WarpExchange warp = {run};
  const int count = run.count_of(0), lane = own_lane();
  Given given = {};
  if (lane < 8 * count) memcpy(given.words, ptx_row(run, count, Access::read), 16);
  warp.meet(&given);
  for (int i = 0; i < count; ++i) {
    uint32_t word;
    if (run.has(".trans")) {
      uint16_t two[2];
      for (int j = 0; j < 2; ++j)
        two[j] = reinterpret_cast<const uint16_t*>(warp.of(i * 8 + lane % 4 * 2 + j).words)[lane / 4];
      memcpy(&word, two, 4);
    } else {
      word = warp.of(i * 8 + lane / 4).words[lane % 4];
    }
    run.put(i, word);
  }
  warp.meet(&given);
}

EMULATOR_OWN void ptx_store_matrices(PtxRun& run) {
  const WarpExchange warp = {run};
  const int count = run.count_of(1), lane = own_lane();
  Given given = {};
  for (int i = 0; i < count; ++i) given.words[i] = run.word(1 + i);
  warp.meet(&given);
  uint16_t row[8];
  for (int j = 0; j < 8; ++j) {
    const int from = run.has(".trans") ? j * 4 + lane % 8 / 2 : lane % 8 * 4 + j / 2;
    const uint32_t word = lane < 8 * count ? warp.of(from).words[lane / 8] : 0;
    row[j] = static_cast<uint16_t>(word >> 16 * (run.has(".trans") ? lane % 2 : j % 2));
  }
  if (lane < 8 * count) memcpy(ptx_row(run, 0, Access::write), row, 16);
  warp.meet(&given);
}

EMULATOR_OWN void ptx_move_matrix(PtxRun& run) {
  const WarpExchange warp = {run};
  const int lane = own_lane();
  Given given = {{run.word(1)}};
  warp.meet(&given);
  uint32_t two[2];
  for (int j = 0; j < 2; ++j)
    two[j] = warp.of((lane % 4 * 2 + j) * 4 + lane / 8).words[0] >> 16 * (lane / 4 % 2) & 0xffff;
  warp.meet(&given);
  run.put(0, two[0] | two[1] << 16);
}

// Kinds of items, as instructions name them.
enum class Item : uint8_t { half, bfloat, tf32, signed_byte, unsigned_byte };

struct EMULATOR_HIDDEN Product {
  Item left, right;
  int depth;  // items along the reduction, always 32 bytes
  bool integers;

  // Reads the kinds from the end of a name, where `skipped` follow: ".f16.f16", ".u8.s8".
  EMULATOR_QUIET static Item kind(const char* name) {
    if (!strncmp(name, "bf16", 4)) return Item::bfloat;
    if (!strncmp(name, "f16", 3)) return Item::half;
    if (!strncmp(name, "tf32", 4)) return Item::tf32;
    return *name == 's' ? Item::signed_byte : Item::unsigned_byte;
  }
  EMULATOR_QUIET static Product of(const char* kinds) {
    Product made = {kind(kinds), kind(strchr(kinds, '.') + 1), 0, false};
    made.integers = made.left == Item::signed_byte || made.left == Item::unsigned_byte;
    made.depth = made.integers ? 32 : made.left == Item::tf32 ? 8 : 16;
    return made;
  }
  EMULATOR_QUIET int item_bytes() const { return 32 / depth; }
  // The items of 32 bytes of a row or of a column, as floats or integers.
  struct Items {
    float floats[16];
    int integers[32];
  };
  EMULATOR_QUIET static Items widened(Item kind, const uint32_t* words) {
    Items made;
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = words[i];
      float* const two = made.floats + 2 * i;
      switch (kind) {
        case Item::half: two[0] = Binary16::widen(word & 0xffff), two[1] = Binary16::widen(word >> 16); break;
        case Item::bfloat: two[0] = Bfloat16::widen(word & 0xffff), two[1] = Bfloat16::widen(word >> 16); break;
        case Item::tf32: two[0] = bits_float(word & ~0x1fffu); break;
        default:
          for (int j = 0; j < 4; ++j) {
            const uint8_t byte = static_cast<uint8_t>(word >> 8 * j);
            made.integers[4 * i + j] = kind == Item::signed_byte ? static_cast<int8_t>(byte) : byte;
          }
      }
    }
    return made;
  }
  // The products of a row and of a column are added to a sum.
  EMULATOR_QUIET uint32_t add(uint32_t sum, const Items& row, const Items& column) const {
    if (integers) {
      int count = static_cast<int>(sum);
      for (int i = 0; i < 32; ++i) count += row.integers[i] * column.integers[i];
      return static_cast<uint32_t>(count);
    }
    const float *a = row.floats, *b = column.floats;
    float total = bits_float(sum);
    for (int i = 0; i < 16; i += 2)
      total += left == Item::tf32 ? a[i] * b[i] : a[i] * b[i] + a[i + 1] * b[i + 1];
    return float_bits(total);
  }
};

// The words of a row of the left fragment: of each half of the reduction one of each of four lanes.
EMULATOR_OWN void left_row(const WarpExchange& warp, int lane, int half, uint32_t* row) {
  for (int i = 0; i < 8; ++i) row[i] = warp.of(lane / 4 * 4 + i % 4).words[i / 4 * 2 + half];
}

// mma.sync.aligned.m16n8k*.row.col: sums in four words, A in four, B in two, sums to begin with.
EMULATOR_OWN void ptx_mma(PtxRun& run) {
  const WarpExchange warp = {run};
  const int lane = own_lane();
  const char* const kinds = strstr(run.now->name, ".row.col.") + 9;  // after it that of the results
  const Product product = Product::of(strchr(kinds, '.') + 1);
  Given given = {};
  for (int i = 0; i < 6; ++i) given.words[i] = run.word(4 + i);
  warp.meet(&given);
  uint32_t sums[4], words[8];
  Product::Items rows[2], columns[2];
  for (int i = 0; i < 2; ++i) {
    left_row(warp, lane, i, words);
    rows[i] = Product::widened(product.left, words);
    for (int j = 0; j < 8; ++j) words[j] = warp.of((lane % 4 * 2 + i) * 4 + j % 4).words[4 + j / 4];
    columns[i] = Product::widened(product.right, words);
  }
  for (int i = 0; i < 4; ++i) sums[i] = product.add(run.word(10 + i), rows[i / 2], columns[i % 2]);
  warp.meet(&given);
  for (int i = 0; i < 4; ++i) run.put(i, sums[i]);
}

// An operand of wgmma in shared memory (PTX ISA, "Shared Memory Matrix Layout").
struct EMULATOR_HIDDEN Described {
  const PtxRun& run;
  uint32_t begin, leading, stride;
  int swizzle;  // 1 for 128 bytes, 2 for 64, 3 for 32, 0 for none
  bool transposed;
  uint32_t item_bytes;
  Flight flight;

  EMULATOR_QUIET static Described of(const PtxRun& run, uint64_t bits, bool transposed, int item_bytes) {
    Described made = {run, static_cast<uint32_t>(bits & 0x3fff) << 4, static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4,
                      static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4, static_cast<int>(bits >> 62), transposed,
                      static_cast<uint32_t>(item_bytes), own_flight(Engine::product, current->products.group, run.site)};
    if ((bits >> 49 & 7) || (made.swizzle > 1) || (transposed && !made.swizzle))
      fail(EMULATOR_THREAD " describes an operand " EMULATOR_PTX_AT " as the emulator does not know it: 0x%llx%s",
           EMULATOR_WHERE(current), EMULATOR_PTX_LINE(run), static_cast<unsigned long long>(bits),
           transposed ? ", transposed" : "");
    return made;
  }

  EMULATOR_QUIET const char* at(uint32_t plain) const {
    return static_cast<const char*>(generic_address(swizzle ? plain ^ (plain >> 7 & 7) << 4 : plain));
  }

  // Gathers 32 bytes along the reduction of a row or column.
  EMULATOR_QUIET void gather(uint32_t across, uint32_t* words) const {
    if (!transposed) {
      const uint32_t row = across % 8 * (swizzle ? 128 : 16) + across / 8 * stride;
      for (uint32_t half = 0; half < 2; ++half) {
        const char* const from = at(begin + row + half * (swizzle ? 16 : leading));
        run.touch(from, 16, Access::read, flight);
        memcpy(words + half * 4, from, 16);
      }
      return;
    }
    const uint32_t panel = 128 / item_bytes;
    char* const to = reinterpret_cast<char*>(words);
    for (uint32_t k = 0; k < 32 / item_bytes; ++k) {
      const uint32_t plain = begin + k / 8 * stride + k % 8 * 128 + across / panel * leading + across % panel * item_bytes;
      const char* const from = at(plain);
      run.touch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t{3}), 4, Access::read, flight);
      memcpy(to + k * item_bytes, from, item_bytes);
    }
  }
};

// A warpgroup multiplies 64 rows; of each 8 columns a thread holds two, in rows 8 apart.
EMULATOR_OWN void multiply_tiles(PtxRun& run) {
  const WarpExchange warp = {run};
  const int first = static_cast<int>(active - blocks) * block_stride;  // thread of the block
  const int lane = own_lane(), in_group = (static_cast<int>(current - threads) - first) / 32 % 4;
  const char* const kinds = strstr(run.now->name, run.has(".s32.") ? ".s32." : ".f32.") + 5;
  const Product product = Product::of(kinds);
  const int count = run.count_of(0), left_words = run.count_of(1), left_at = count, right_at = count + left_words;
  const int columns = atoi(strstr(run.now->name, ".m64n") + 5);
  // Behind the operands: whether to add, two signs, and of 16-bit floats whether operands are transposed.
  const bool adds = run.value(right_at + 1) != 0, several = left_words > 1;
  const int turns = run.now->word_count - (right_at + 4);
  const bool right_turned = turns > 0 && run.value(right_at + 4 + turns - 1);
  if (count * 2 != columns || (!product.integers && (run.value(right_at + 2) != 1 || run.value(right_at + 3) != 1)))
    fail("`%s` " EMULATOR_PTX_AT " has %d sums, or signs: " EMULATOR_THREAD, run.now->name,
         EMULATOR_PTX_LINE(run), count, EMULATOR_WHERE(current));
  Given given = {};
  for (int i = 0; several && i < 4; ++i) given.words[i] = run.word(left_at + i);
  warp.meet(&given);
  uint32_t words[8];
  Product::Items rows[2];
  for (int half = 0; half < 2; ++half) {
    if (several) left_row(warp, lane, half, words);
    else
      Described::of(run, run.value(left_at), turns > 1 && run.value(right_at + 4), product.item_bytes())
          .gather(static_cast<uint32_t>(in_group * 16 + lane / 4 + half * 8), words);
    rows[half] = Product::widened(product.left, words);
  }
  const Described right = Described::of(run, run.value(right_at), right_turned, product.item_bytes());
  for (int i = 0; i < count / 2; ++i) {
    right.gather(static_cast<uint32_t>(i / 2 * 8 + lane % 4 * 2 + i % 2), words);
    const Product::Items column = Product::widened(product.right, words);
    for (int half = 0; half < 2; ++half) {
      const int at = i / 2 * 4 + half * 2 + i % 2;
      run.put(at, product.add(adds ? run.word(at) : 0, rows[half], column));
    }
  }
  warp.meet(&given);
}

// Sums of products. Until these are waited for, their registers are poisoned: who reads or writes them is
// told. Afterwards it is known what a fence has found in them.
struct Sums {
  Sums* next;
  bool pending;    // its product has not been waited for
  uint32_t group;  // of the last product that adds to them
  Line line;
  int count;
  uint32_t* registers[128];
  uint32_t values[128];  // of the product, or at the last wgmma.fence after it
};

EMULATOR_OWN void give_back(Sums& sums) {
  uint32_t poisoned;
  memset(&poisoned, poison, sizeof poisoned);
  for (int i = 0; i < sums.count; ++i) {
    if (*sums.registers[i] != poisoned)
      fail(EMULATOR_THREAD " has written to sums of the product in inline PTX at %s:%d before it waited "
           "for that", EMULATOR_WHERE(current), sums.line.file, sums.line.number);
    *sums.registers[i] = sums.values[i];
  }
  sums.pending = false, --current->pending_sums;
}

EMULATOR_OWN void take_away(Sums& sums) {
  for (int i = 0; i < sums.count; ++i) {
    sums.values[i] = *sums.registers[i];
    memset(sums.registers[i], poison, sizeof(uint32_t));
  }
  sums.pending = true, ++current->pending_sums;
}

EMULATOR_OWN void check_sums(uintptr_t address, uint32_t bytes, uintptr_t caller) {
  for (const Sums* each = current->sums; each; each = each->next)
    for (int i = 0; each->pending && i < each->count; ++i)
      if (reinterpret_cast<uintptr_t>(each->registers[i]) - address < bytes)
        fail(EMULATOR_THREAD " reads at {site:%u} a sum of the product in inline PTX at %s:%d, which it has "
             "not waited for", EMULATOR_WHERE(current), site_of(caller), each->line.file, each->line.number);
}

EMULATOR_OWN uint32_t* sum_register(const PtxRun& run, int i) {
  return static_cast<uint32_t*>(run.operands[run.now->words[i].index].at);
}

// Tells whether the sums are those of an instruction: another variable may begin where one was.
EMULATOR_OWN bool are_of(const Sums& sums, const PtxRun& run) {
  bool same = sums.count == run.count_of(0);
  for (int i = 0; same && i < sums.count; ++i) same = sums.registers[i] == sum_register(run, i);
  return same;
}

// The sums that a product adds to: those of one before, or others. What a thread has done to them since
// must be before its last fence.
EMULATOR_OWN Sums& sums_of(const PtxRun& run, bool adds) {
  Sums* own = current->sums;
  while (own && own->registers[0] != sum_register(run, 0)) own = own->next;
  if (own && own->pending) return give_back(*own), *own;
  const bool known = own && are_of(*own, run);
  for (int i = 0; known && adds && i < own->count; ++i)
    if (*own->registers[i] != own->values[i])
      fail(EMULATOR_THREAD " issues a product " EMULATOR_PTX_AT " that adds to sums which it has changed, with no "
           "wgmma.fence between", EMULATOR_WHERE(current), EMULATOR_PTX_LINE(run));
  if (known) return *own;
  if (!own) {
    own = static_cast<Sums*>(malloc(sizeof(Sums)));
    own->next = current->sums, current->sums = own;
  }
  own->pending = false, own->count = run.count_of(0);
  for (int i = 0; i < own->count; ++i) own->registers[i] = sum_register(run, i);
  return *own;
}

// What a thread has put in registers is there for its products after such a fence only. That there is one
// before the first is checked, and of later ones that of sums that were used before.
EMULATOR_OWN void ptx_wgmma_fence(PtxRun&) {
  current->has_fenced_registers = true;
  for (Sums* each = current->sums; each; each = each->next)
    for (int i = 0; !each->pending && i < each->count; ++i) each->values[i] = *each->registers[i];
}

EMULATOR_OWN void ptx_wgmma(PtxRun& run) {
  if (!current->has_fenced_registers)
    fail(EMULATOR_THREAD " issues a product " EMULATOR_PTX_AT " with no wgmma.fence before it",
         EMULATOR_WHERE(current), EMULATOR_PTX_LINE(run));
  Sums& sums = sums_of(run, run.value(run.count_of(0) + run.count_of(1) + 1) != 0);
  multiply_tiles(run);
  sums.group = current->products.group;
  sums.line.file = run.line.file, sums.line.number = run.line.number;
  take_away(sums);
}

EMULATOR_OWN void drop_sums(Thread& t, bool exits) {
  for (const Sums* each = t.sums; exits && each; each = each->next)
    if (each->pending)
      fail(EMULATOR_THREAD " exits before it has waited for the product in inline PTX at %s:%d",
           EMULATOR_WHERE(current), each->line.file, each->line.number);
  while (Sums* const one = t.sums) t.sums = one->next, free(one);
  t.pending_sums = 0;
}

EMULATOR_OWN void ptx_wgmma_commit(PtxRun&) { ++current->products.group; }
// All lanes of a warp wait together, which orders what they read before.
EMULATOR_OWN void ptx_wgmma_wait(PtxRun& run) {
  wait_groups(current->products, run.word(0));
  for (Sums* each = current->sums; each; each = each->next)
    if (each->pending && each->group < current->products.waited) give_back(*each);
  together("wgmma.wait_group", warp_barrier, 0xffffffffu, 0, 0, 32, run.line.number);
}

}  // namespace emulator
