// The variables of the module, which are `__device__` or `__managed__`, or static in a function: those
// that the symbol table of the library names, but for the emulator's own and those that cannot be written.
#pragma once

#include <dlfcn.h>
#include <elf.h>

#include "state.h"

namespace emulator {

EMULATOR_STATE Range* variables;
EMULATOR_STATE int variable_count = -1;  // until they have been looked for

// The name in the source: of `kernel(float*)::flags` the last part. The C++ library is looked up, since a
// reference to it takes the linker longer than all the rest.
EMULATOR_OWN const char* source_name(const char* symbol) {
  using Demangle = char* (*)(const char*, char*, size_t*, int*);
  void* const library = dlopen("libstdc++.so.6", RTLD_LAZY);
  void* const found = library ? dlsym(library, "__cxa_demangle") : nullptr;
  int status = 0;
  const char* const full =
      found ? reinterpret_cast<Demangle>(found)(symbol, nullptr, nullptr, &status) : nullptr;
  if (!full) return strdup(symbol);
  const char* last = full;
  for (const char* at = full; (at = strstr(at, "::"));) last = at += 2;
  return last;
}

EMULATOR_OWN bool is_emulators(const char* symbol) {
  static const char* const begins[] = {"_ZN8emulator", "_ZZN8emulator", "_ZGV"};
  static const char* const names[] = {"threadIdx", "blockIdx", "blockDim", "gridDim"};
  for (const char* const each : begins)
    if (!strncmp(symbol, each, strlen(each))) return true;
  if (!strncmp(symbol, "_ZL", 3)) symbol += 3 + strspn(symbol + 3, "0123456789");
  for (const char* const each : names)
    if (!strcmp(symbol, each)) return true;
  return false;
}

EMULATOR_OWN void note_variables(const char* file, size_t size) {
  const ElfW(Ehdr)& header = *reinterpret_cast<const ElfW(Ehdr)*>(file);
  if (size < sizeof header || header.e_shoff + header.e_shnum * sizeof(ElfW(Shdr)) > size) return;
  const ElfW(Shdr)* const sections = reinterpret_cast<const ElfW(Shdr)*>(file + header.e_shoff);
  for (int i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const ElfW(Sym)* const symbols = reinterpret_cast<const ElfW(Sym)*>(file + sections[i].sh_offset);
    const char* const names = file + sections[sections[i].sh_link].sh_offset;
    const size_t count = sections[i].sh_size / sizeof *symbols;
    variables = static_cast<Range*>(malloc(count * sizeof(Range)));
    for (size_t j = 0; variables && j < count; ++j) {
      const ElfW(Sym)& each = symbols[j];
      if ((each.st_info & 15) != STT_OBJECT || !each.st_size || each.st_shndx >= header.e_shnum) continue;
      const char* const name = names + each.st_name;
      if (!(sections[each.st_shndx].sh_flags & SHF_WRITE) || is_emulators(name)) continue;
      const uintptr_t begin = library_base + each.st_value;
      variables[variable_count++] = {source_name(name), begin, begin + each.st_size, true, 4, nullptr};
    }
  }
}

// Looks for them in the file of the library, once.
EMULATOR_OWN void find_variables() {
  if (variable_count >= 0) return;
  variable_count = 0;
  FILE* const file = fopen(library_path, "rb");
  if (!file) return;
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  rewind(file);
  char* const content = size > 0 ? static_cast<char*>(malloc(static_cast<size_t>(size))) : nullptr;
  if (content && fread(content, 1, static_cast<size_t>(size), file) == static_cast<size_t>(size))
    note_variables(content, static_cast<size_t>(size));
  free(content);
  fclose(file);
}

EMULATOR_OWN Range* variable_at(uintptr_t address) {
  for (int i = 0; i < variable_count; ++i)
    if (address - variables[i].begin < variables[i].end - variables[i].begin) return variables + i;
  return nullptr;
}

}  // namespace emulator
