// CUDA C++ for a host compiler: generated and hand-written kernels are compiled after this header
// and run on the CPU, cluster by cluster. Not supported: textures, and cooperative launches.
#pragma once

// Declaring the special functions of C++17 (Bessel, zeta, ...), which no device has, takes a third
// of the compile time.
#include <type_traits>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/keywords.h"
#include "emulator/vectors.h"
#include "emulator/half.h"
#include "emulator/signature.h"
#include "emulator/arithmetic.h"
#include "emulator/special_functions.h"
#include "emulator/rounding.h"
#include "emulator/packed_integers.h"
#include "emulator/half_functions.h"
#include "emulator/half_conversions.h"
#include "emulator/fibers.h"
#include "emulator/state.h"
#include "emulator/shared_memory.h"
#include "emulator/sites.h"
#include "emulator/flights.h"
#include "emulator/races.h"
#include "emulator/checks.h"
#include "emulator/hooks.h"
#include "emulator/atomics.h"
#include "emulator/async.h"
#include "emulator/mbarriers.h"
#include "emulator/warp.h"
#include "emulator/cluster.h"
#include "emulator/block.h"
#include "emulator/device.h"
#include "emulator/textures.h"
#include "emulator/ptx_table.h"
