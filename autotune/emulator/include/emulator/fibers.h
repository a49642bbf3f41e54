// Context switches between the threads of a block: one small stack each, no system calls.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#if defined(EMULATOR_APART)
#elif defined(__x86_64__)
// Saves the callee-saved registers, swaps stacks, and returns on the other one.
asm(R"(
    .text
    .p2align 4
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch,@function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulator_switch,.-emulator_switch
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .p2align 4
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch,%function
emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size emulator_switch,.-emulator_switch
)");
#else
#error "the CUDA emulator switches stacks on x86-64 and aarch64 only"
#endif

extern "C" void emulator_switch(void** save, void* load) __attribute__((visibility("hidden")));

namespace emulator {

constexpr size_t stack_bytes = 256 * 1024;
constexpr int most_threads = 1024;  // of a block
constexpr int most_blocks = 8;      // of a cluster: more are not portable

// Address space for every stack of a cluster; pages are touched only as they are used.
EMULATOR_STATE char* stacks = nullptr;
EMULATOR_STATE int free_stacks[most_blocks * most_threads];
EMULATOR_STATE int free_stack_count = 0;
EMULATOR_STATE size_t all_stack_bytes = 0;

EMULATOR_OWN bool make_stacks(int count) {
  all_stack_bytes = stack_bytes * static_cast<size_t>(count);
  void* got = mmap(nullptr, all_stack_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return false;
  stacks = static_cast<char*>(got);
  return true;
}

EMULATOR_OWN void drop_stacks() {
  if (stacks) munmap(stacks, all_stack_bytes);
  stacks = nullptr;
}

// The lowest word of each stack; a thread whose local arrays are too large overwrites it.
constexpr uint64_t stack_mark = 0x5AFE57ACC0FFEE01u;
EMULATOR_QUICK uint64_t& stack_end(int stack) {
  return *reinterpret_cast<uint64_t*>(stacks + stack * stack_bytes);
}

EMULATOR_OWN void free_all_stacks() {
  const int count = static_cast<int>(all_stack_bytes / stack_bytes);
  free_stack_count = count;
  for (int i = 0; i < count; ++i) free_stacks[i] = count - 1 - i;
}

// Returns the stack pointer of a fiber that starts in `body` when first switched to.
EMULATOR_OWN void* new_fiber(int stack, void (*body)()) {
  stack_end(stack) = stack_mark;
  uintptr_t top = reinterpret_cast<uintptr_t>(stacks + (stack + 1) * stack_bytes) - 64;
  top &= ~uintptr_t{63};
#if defined(__x86_64__)
  // At entry of a function the stack pointer is 8 off a multiple of 16; `ret` pops `body`.
  uintptr_t* frame = reinterpret_cast<uintptr_t*>(top) - 8;
  for (int i = 0; i < 6; ++i) frame[i] = 0;
  frame[6] = reinterpret_cast<uintptr_t>(body);
  frame[7] = 0;
#else
  uintptr_t* frame = reinterpret_cast<uintptr_t*>(top) - 20;
  for (int i = 0; i < 20; ++i) frame[i] = 0;
  frame[11] = reinterpret_cast<uintptr_t>(body);
#endif
  return frame;
}

}  // namespace emulator
