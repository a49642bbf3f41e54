// Inline PTX of single accesses: loads and stores, weak and ordered ones, and atomic operations. What their
// names are put together of - order, scope, space, operation, vector and type - is read off them.
#pragma once

#include "ptx.h"

namespace emulator {

enum class PtxKind : uint8_t { load, store, reduce, exchange };
enum class PtxOrder : uint8_t { weak, is_volatile, relaxed, acquire, release, acq_rel };
enum class PtxType : uint8_t { none, bits, is_unsigned, is_signed, real };

struct PtxAccess {
  PtxKind kind;
  PtxOrder order;
  bool of_block;  // its scope is the block
  bool shared;
  int items, item_bytes;
  PtxType type;
  char operation[8];
};

// Copies the next part of a name, up to its dot; returns where the rest begins, or null at the end.
EMULATOR_OWN const char* ptx_part(const char* name, char (&part)[24]) {
  const size_t length = strcspn(name, ".");
  if (length >= sizeof part) return part[0] = '?', part[1] = 0, nullptr;
  memcpy(part, name, length), part[length] = 0;
  return name[length] ? name + length + 1 : nullptr;
}

EMULATOR_OWN bool is_one_of(const char* part, const char* words) {
  const size_t length = strlen(part);
  for (const char* at = words; length && (at = strstr(at, part)); at += length)
    if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
  return false;
}

EMULATOR_OWN bool read_ptx_type(const char* part, PtxAccess& own) {
  const int bits = atoi(part + 1);
  const PtxType type = part[0] == 'b' ? PtxType::bits : part[0] == 'u' ? PtxType::is_unsigned
                       : part[0] == 's' ? PtxType::is_signed : PtxType::real;
  if (!is_one_of(part, "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64")) return false;
  own.type = type, own.item_bytes = bits / 8;
  return true;
}

EMULATOR_OWN bool read_ptx_order(const char* part, PtxAccess& own) {
  static const char* const names[] = {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel"};
  for (int i = 0; i < 6; ++i)
    if (!strcmp(part, names[i])) return own.order = static_cast<PtxOrder>(i), true;
  return false;
}

// Tells whether there is such an operation on such numbers.
EMULATOR_OWN bool has_ptx_operation(const PtxAccess& own) {
  const bool atomic = own.kind == PtxKind::reduce || own.kind == PtxKind::exchange;
  const bool loads = own.kind == PtxKind::load, stores = own.kind == PtxKind::store;
  if (own.type == PtxType::none || own.items * own.item_bytes > 16) return false;
  if (loads && (own.order == PtxOrder::release || own.order == PtxOrder::acq_rel)) return false;
  if (stores && (own.order == PtxOrder::acquire || own.order == PtxOrder::acq_rel)) return false;
  if (!atomic) return !own.operation[0];
  if (own.order == PtxOrder::is_volatile || own.item_bytes < 4 || !own.operation[0]) return false;
  if (own.items > 1) return own.type == PtxType::real && own.item_bytes == 4 && !strcmp(own.operation, "add");
  const char* const type = own.type == PtxType::real ? "add" : own.type == PtxType::bits ? "and or xor exch cas"
                           : "add min max inc dec";
  if (!is_one_of(own.operation, type)) return false;
  if (own.kind == PtxKind::reduce) return !is_one_of(own.operation, "exch cas");
  return true;
}

EMULATOR_OWN bool read_ptx_access(const char* name, PtxAccess& own) {
  own = {PtxKind::load, PtxOrder::weak, false, false, 1, 0, PtxType::none, {}};
  char part[24];
  const char* rest = ptx_part(name, part);
  static const char* const kinds[] = {"ld", "st", "red", "atom"};
  int kind = 0;
  while (kind < 4 && strcmp(part, kinds[kind])) ++kind;
  if (kind == 4) return false;
  own.kind = static_cast<PtxKind>(kind);
  while (rest) {
    rest = ptx_part(rest, part);
    const bool of_shared = is_one_of(part, "shared shared::cta shared::cluster");
    if (read_ptx_order(part, own) || read_ptx_type(part, own)) continue;
    if (of_shared) own.shared = true;
    else if (!strcmp(part, "cta")) own.of_block = true;
    else if (is_one_of(part, "v2 v4")) own.items = part[1] - '0';
    else if (is_one_of(part, "add min max inc dec and or xor exch cas")) snprintf(own.operation, 8, "%s", part);
    // Spaces, scopes and hints to caches, which change nothing here.
    else if (!is_one_of(part, "global cluster gpu sys nc ca cg cs lu cv wb wt") && strncmp(part, "L1::", 4) &&
             strncmp(part, "L2::", 4))
      return false;
  }
  return has_ptx_operation(own);
}

EMULATOR_OWN void ptx_order_before(const PtxAccess& own) {
  if (own.order < PtxOrder::release) return;
  if (!own.of_block) fenced = true;
  release();
}

// Has an access checked as what it is among those of other threads: an ordered load is that of a volatile
// object, and an ordered store, which a fence may precede, an atomic operation.
EMULATOR_OWN void ptx_check(const PtxRun& run, const PtxAccess& own, uintptr_t at, uint32_t bytes) {
  if (is_local(at) || !options.checked) return;
  const bool loads = own.kind == PtxKind::load, plain = loads || own.kind == PtxKind::store;
  if (plain && own.order == PtxOrder::weak) return check(at, bytes, loads ? Access::read : Access::write, run.caller);
  if (loads) return read_volatile(at, bytes, run.caller);
  if (own.order == PtxOrder::is_volatile) return write_volatile(at, bytes, run.caller);
  for (uint32_t i = 0; i < bytes; i += static_cast<uint32_t>(own.item_bytes))
    check_atomic_of(at + i, static_cast<uint32_t>(own.item_bytes), run.caller);
}

// What an operation makes of the bits at its address, and of those of its operand.
template <class Unsigned, class Signed>
EMULATOR_RAW static Unsigned ptx_combine(const PtxAccess& own, Unsigned old, Unsigned value, Unsigned other) {
  const bool is_signed = own.type == PtxType::is_signed;
  const bool less = is_signed ? static_cast<Signed>(value) < static_cast<Signed>(old) : value < old;
  const char* const name = own.operation;
  if (!strcmp(name, "add")) return old + value;
  if (!strcmp(name, "min")) return less ? value : old;
  if (!strcmp(name, "max")) return less ? old : value;
  if (!strcmp(name, "and")) return old & value;
  if (!strcmp(name, "or")) return old | value;
  if (!strcmp(name, "xor")) return old ^ value;
  if (!strcmp(name, "inc")) return old >= value ? 0 : old + 1;
  if (!strcmp(name, "dec")) return old == 0 || old > value ? value : old - 1;
  if (!strcmp(name, "cas")) return old == value ? other : old;
  return value;
}

template <class Real, class Bits>
EMULATOR_RAW static Bits ptx_sum(Bits a, Bits b) {
  Real x, y;
  memcpy(&x, &a, sizeof x), memcpy(&y, &b, sizeof y);
  x += y;
  memcpy(&a, &x, sizeof x);
  return a;
}

EMULATOR_OWN uint64_t ptx_result(const PtxAccess& own, uint64_t old, uint64_t value, uint64_t other) {
  const uint32_t old_word = static_cast<uint32_t>(old), word = static_cast<uint32_t>(value);
  if (own.type == PtxType::real)
    return own.item_bytes == 8 ? ptx_sum<double>(old, value) : ptx_sum<float>(old_word, word);
  if (own.item_bytes == 8) return ptx_combine<uint64_t, int64_t>(own, old, value, other);
  return ptx_combine<uint32_t, int32_t>(own, old_word, word, static_cast<uint32_t>(other));
}

// A number that is narrower than its register fills that.
EMULATOR_OWN uint64_t ptx_widened(const PtxAccess& own, uint64_t bits) {
  const int rest = 64 - 8 * own.item_bytes;
  return own.type == PtxType::is_signed ? static_cast<uint64_t>(static_cast<int64_t>(bits << rest) >> rest) : bits;
}

EMULATOR_OWN void ptx_access(PtxRun& run) {
  PtxAccess own;
  read_ptx_access(run.now->name, own);
  const bool puts = own.kind == PtxKind::load || own.kind == PtxKind::exchange;
  const int place = run.begin_of(puts ? 1 : 0), first = run.begin_of(puts ? 2 : 1);
  const uint32_t width = static_cast<uint32_t>(own.item_bytes), bytes = width * static_cast<uint32_t>(own.items);
  char* const at = static_cast<char*>(own.shared ? generic_address(run.word(place))
                                                 : reinterpret_cast<void*>(run.value(place)));
  if (reinterpret_cast<uintptr_t>(at) % bytes)
    fail(EMULATOR_THREAD " accesses %u bytes " EMULATOR_PTX_AT " at an address that is not aligned to them",
         EMULATOR_WHERE(current), bytes, EMULATOR_PTX_LINE(run));
  ptx_order_before(own);
  ptx_check(run, own, reinterpret_cast<uintptr_t>(at), bytes);
  for (int i = 0; i < own.items; ++i) {
    uint64_t old = 0;
    memcpy(&old, at + i * own.item_bytes, width);
    if (puts) run.put(i, ptx_widened(own, old));
    if (own.kind == PtxKind::load) continue;
    const uint64_t value = run.value(first + i);
    const uint64_t other = !strcmp(own.operation, "cas") ? run.value(first + 1) : 0;
    const uint64_t changed = own.kind == PtxKind::store ? value : ptx_result(own, old, value, other);
    if (memcmp(&old, &changed, width)) ++changes;
    memcpy(at + i * own.item_bytes, &changed, width);
  }
}

EMULATOR_OWN PtxPerform ptx_access_known(const char* name, int words) {
  PtxAccess own;
  if (!read_ptx_access(name, own)) return nullptr;
  const int values = own.kind == PtxKind::exchange ? 2 : own.items;
  return words == 1 + values + !strcmp(own.operation, "cas") ? ptx_access : nullptr;
}

EMULATOR_OWN void ptx_fence(PtxRun& run) {
  if (!run.has(".cta")) fenced = true;
  release();
}

}  // namespace emulator
