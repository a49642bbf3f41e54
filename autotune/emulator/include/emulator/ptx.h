// Inline PTX: `asm` statements are rewritten to calls of `ptx` (build.py), which parses the text once
// and performs its instructions, one after another. Those that are known are in ptx_table.h.
#pragma once

#include <initializer_list>

#include "cluster.h"

namespace emulator {

// An operand of an asm statement.
struct Operand {
  void* at;       // where the result goes; none of an input
  uint32_t size;  // bytes
  uint64_t bits;  // of an input
};

template <class T>
static inline Operand ptx_in(T value) {
  static_assert(sizeof(T) <= 8, "an operand of PTX has at most 8 bytes");
  Operand operand = {nullptr, sizeof(T), 0};
  __builtin_memcpy(&operand.bits, &value, sizeof(T));
  return operand;
}

template <class T>
static inline Operand ptx_out(T& variable) {
  static_assert(sizeof(T) <= 8, "an operand of PTX has at most 8 bytes");
  return {&variable, sizeof(T), 0};
}

struct PtxRun;
using PtxPerform = void (*)(PtxRun&);

#define EMULATOR_QUIET __attribute__((no_sanitize("thread")))
#define EMULATOR_HIDDEN __attribute__((visibility("hidden")))

enum class Word : uint8_t { operand, variable, number, special, nothing };

struct PtxWord {  // an operand of an instruction, or an element of one in braces or brackets
  Word kind;
  uint8_t group;   // which of the operands between commas
  uint16_t index;  // of the operand of the statement, or of the variable
  int64_t number;  // or what is added to the address
};

constexpr int most_words = 160, most_variables = 8;

struct PtxInstruction {
  char name[112];
  PtxPerform perform;
  int guard;  // the variable that says whether it is performed; -1 if it always is
  bool guard_negated;
  int word_count;
  PtxWord* words;
};

struct PtxProgram {
  const char* text;
  int count, variable_count;
  char variables[most_variables][24];
  PtxInstruction* instructions;
};

// Registers that hold where a thread is.
constexpr int special_count = 11;
static const char* const special_names[special_count] = {
    "laneid", "warpid", "cluster_ctarank", "cluster_nctarank", "clusterid.x", "cluster_ctaid.x",
    "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"};

EMULATOR_OWN uint64_t special_value(int which) {
  const int in_block = static_cast<int>(current - threads) % block_stride;
  const uint32_t lane = 1u << in_block % 32;
  const uint64_t values[special_count] = {
      static_cast<uint64_t>(in_block % 32), static_cast<uint64_t>(in_block / 32), cluster_rank(),
      static_cast<uint64_t>(block_count), blockIdx.x / cluster_dims.x, blockIdx.x % cluster_dims.x,
      lane, lane | (lane - 1), lane - 1, 0u - lane, ~(lane | (lane - 1))};
  return values[which];
}

struct EMULATOR_HIDDEN PtxRun {
  const PtxProgram* program;
  const PtxInstruction* now;
  const Operand* operands;
  int operand_count;
  uint64_t variables[most_variables];
  Line line;
  uint32_t site;
  uintptr_t caller;

  EMULATOR_QUIET uint64_t value(int i) const {
    const PtxWord& word = now->words[i];
    if (word.kind == Word::special) return special_value(word.index);
    if (word.kind == Word::variable) return variables[word.index] + static_cast<uint64_t>(word.number);
    if (word.kind != Word::operand) return static_cast<uint64_t>(word.number);
    const Operand& operand = operands[word.index];
    uint64_t bits = operand.bits;
    if (operand.at) bits = 0, memcpy(&bits, operand.at, operand.size);
    return bits + static_cast<uint64_t>(word.number);
  }
  EMULATOR_QUIET uint32_t word(int i) const {
    return static_cast<uint32_t>(value(i));
  }
  EMULATOR_QUIET float real(int i) const { return bits_float(word(i)); }
  EMULATOR_QUIET void put(int i, uint64_t bits) {
    const PtxWord& word = now->words[i];
    if (word.kind == Word::variable) variables[word.index] = bits;
    else if (word.kind == Word::operand && operands[word.index].at)
      memcpy(operands[word.index].at, &bits, operands[word.index].size);
  }
  EMULATOR_QUIET bool has(const char* part) const { return strstr(now->name, part) != nullptr; }
  // The words of an operand between commas.
  EMULATOR_QUIET int begin_of(int group) const {
    int i = 0;
    while (i < now->word_count && now->words[i].group < group) ++i;
    return i;
  }
  EMULATOR_QUIET int count_of(int group) const { return begin_of(group + 1) - begin_of(group); }
  // A checked access to `bytes` at an address, of each 16 apart.
  EMULATOR_QUIET void touch(const void* at, uint32_t bytes, Access access,
                            const Flight& flight = no_flight) const {
    if (!options.checked) return;
    const uintptr_t first = reinterpret_cast<uintptr_t>(at);
    for (uintptr_t place = first; place < first + bytes; place += 16) {
      const uintptr_t left = first + bytes - place;
      settle();
      check_at(place, static_cast<uint32_t>(left < 16 ? left : 16), access, site, false,
               flight);
    }
  }
};

#define EMULATOR_PTX_AT "in inline PTX at %s:%d"
#define EMULATOR_PTX_LINE(run) (run).line.file, (run).line.number

// Finds what performs an instruction with a number of words as operands; see ptx_table.h.
EMULATOR_OWN PtxPerform ptx_known(const char* name, int words);

struct EMULATOR_HIDDEN PtxParser {
  const char* at;
  PtxProgram* program;

  // Skips blanks and comments.
  EMULATOR_QUIET void skip() {
    for (;; ++at) {
      if (at[0] == '/' && at[1] == '/') at += strcspn(at, "\n");
      if (!*at || !strchr(" \t\n", *at)) return;
    }
  }

  EMULATOR_QUIET int variable(const char* name, size_t length) const {
    for (int i = 0; i < program->variable_count; ++i)
      if (strlen(program->variables[i]) == length && !strncmp(program->variables[i], name, length))
        return i;
    return -1;
  }

  EMULATOR_QUIET static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
  }

  EMULATOR_QUIET size_t name_length() const {
    size_t length = 0;
    while (in_name(at[length])) ++length;
    return length;
  }

  // `.reg .pred p, q`
  EMULATOR_QUIET void declare() {
    at += 4, skip();
    while (*at && !strchr(" \t\n", *at)) ++at;
    while (*at && *at != ';') {
      skip();
      const size_t length = name_length();
      if (length && program->variable_count < most_variables && length < sizeof program->variables[0])
        memcpy(program->variables[program->variable_count++], at, length);
      at += length ? length : 1;
    }
  }

  // Reads the name of a special register, `%laneid` or, as asm writes it, `%%laneid`.
  EMULATOR_QUIET bool special(PtxWord& word) {
    const char* name = at;
    while (*name == '%') ++name;
    if (name == at) return false;
    for (int i = 0; i < special_count; ++i) {
      const size_t length = strlen(special_names[i]);
      if (strncmp(name, special_names[i], length) || in_name(name[length])) continue;
      word.kind = Word::special, word.index = static_cast<uint16_t>(i), at = name + length;
      return true;
    }
    return false;
  }

  // Reads one word; returns whether it could.
  EMULATOR_QUIET bool read(PtxWord& word) {
    word = {Word::nothing, 0, 0, 0};
    if (*at == '_' && !in_name(at[1])) return ++at, true;
    char* end = nullptr;
    if (special(word)) return true;
    if (at[0] == '%' && at[1] == '%') at += 2;  // a register of the text itself
    if (*at == '%') {
      word.kind = Word::operand;
      word.index = static_cast<uint16_t>(strtol(at + 1, &end, 10));
      if (end == at + 1) return false;
      at = end;
    } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
      word.kind = Word::number, word.number = static_cast<int64_t>(strtoll(at, &end, 0)), at = end;
      if (*at == 'U') ++at;
      return true;
    } else {
      const size_t length = name_length();
      const int found = variable(at, length);
      if (found < 0) return false;
      word.kind = Word::variable, word.index = static_cast<uint16_t>(found), at += length;
    }
    skip();
    if (*at == '+') word.number = strtoll(at + 1, &end, 0), at = end;
    return true;
  }

  EMULATOR_QUIET PtxInstruction& add() {
    const size_t bytes = sizeof(PtxInstruction) * static_cast<size_t>(program->count + 1);
    program->instructions = static_cast<PtxInstruction*>(realloc(program->instructions, bytes));
    PtxInstruction& one = program->instructions[program->count++];
    memset(static_cast<void*>(&one), 0, sizeof one);
    return one;
  }

  EMULATOR_QUIET void instruction(PtxInstruction& one) {
    one.guard = -1;
    const bool guarded = *at == '@';
    if (guarded) {
      one.guard_negated = *++at == '!';
      if (one.guard_negated) ++at;
      while (*at == '%') ++at;
      const size_t length = name_length();
      one.guard = variable(at, length);
      at += length, skip();
    }
    size_t length = 0;
    while (at[length] && !strchr(" \t\n;", at[length])) ++length;
    snprintf(one.name, sizeof one.name, "%.*s", static_cast<int>(length), at);
    at += length;
    bool known = !guarded || one.guard >= 0;
    PtxWord words[most_words];
    int depth = 0, group = 0;
    for (skip(); *at && *at != ';'; skip()) {
      if (strchr("{[", *at)) ++depth, ++at;
      else if (strchr("}]", *at)) --depth, ++at;
      else if (*at == ',') group += depth == 0, ++at;
      else if (*at == '|') ++at;
      else if (one.word_count < most_words && read(words[one.word_count]))
        words[one.word_count++].group = static_cast<uint8_t>(group);
      else { known = false; break; }
    }
    one.perform = known ? ptx_known(one.name, one.word_count) : nullptr;
    const size_t bytes = sizeof(PtxWord) * static_cast<size_t>(one.word_count);
    one.words = static_cast<PtxWord*>(malloc(bytes + 1));
    memcpy(one.words, words, bytes);
  }

  EMULATOR_QUIET void parse() {
    for (skip(); *at; skip()) {
      if (strchr("{};", *at)) ++at;
      else if (!strncmp(at, ".reg", 4)) declare();
      else instruction(add());
    }
  }
};

constexpr size_t most_programs = 4096;
EMULATOR_STATE PtxProgram* programs[most_programs];

// The program of a text, which is parsed when it is first met; texts are constants.
EMULATOR_OWN const PtxProgram& ptx_program(const char* text) {
  size_t slot = reinterpret_cast<uintptr_t>(text) / 8 % most_programs;
  while (programs[slot] && programs[slot]->text != text) slot = (slot + 1) % most_programs;
  if (!programs[slot]) {
    programs[slot] = static_cast<PtxProgram*>(calloc(1, sizeof(PtxProgram)));
    programs[slot]->text = text;
    PtxParser{text, programs[slot]}.parse();
  }
  return *programs[slot];
}

EMULATOR_OWN void ptx(const char* text, std::initializer_list<Operand> outputs = {},
                      std::initializer_list<Operand> inputs = {}, Line line = Line::caller()) {
  settle();
  const PtxProgram& program = ptx_program(text);
  Operand operands[most_words];
  int count = 0;
  for (const Operand& each : outputs) operands[count++] = each;
  for (const Operand& each : inputs) operands[count++] = each;
  const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  PtxRun run = {&program, nullptr, operands, count, {}, line, site_of(caller), caller};
  for (int i = 0; i < program.count; ++i) {
    run.now = program.instructions + i;
    if (!run.now->perform)
      fail("the emulator does not know `%s` " EMULATOR_PTX_AT
           " as it is written; write another way under #ifdef AUTOTUNE_EMULATE: " EMULATOR_THREAD,
           run.now->name, EMULATOR_PTX_LINE(run), EMULATOR_WHERE(current));
    if (run.now->guard >= 0 && (run.variables[run.now->guard] != 0) == run.now->guard_negated) continue;
    run.now->perform(run);
  }
}

}  // namespace emulator
