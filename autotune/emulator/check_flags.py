"""Flags with which the compiler has a kernel tell the emulator of each memory access."""

# Kernels are compiled for the thread sanitizer, but not linked with it: the header has functions
# of its own that the compiler then calls at each memory access. Hence the flag goes to the
# compiler proper (-Wp), past the driver, which would link. So do those for checks of alignment
# and of indices, which precede each access as the source has it, before a `float4` becomes four
# floats, and an array a part of shared memory.
CHECK_FLAGS = (
    *("-Wp,-fsanitize=thread", "-Wp,-fsanitize=alignment", "-Wp,-fsanitize=bounds"),
    # Volatile accesses call functions of their own: a thread may wait for what another writes.
    "--param=tsan-distinguish-volatile=1",
    # The argument of a call is no access for the thread sanitizer, even if it is a struct that is
    # loaded; with this it is copied by a constructor, in which that load is one.
    "-fno-elide-constructors",
    # What loads ahead of a condition or a loop would be taken for an access of the kernel.
    *("-fno-tree-loop-im", "-fno-tree-cselim", "-fno-ssa-phiopt", "-fno-hoist-adjacent-loads"),
)
