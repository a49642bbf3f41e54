// The namespace of libcu++: of what is not emulated, the host's library.
#pragma once

#include "autotune_emulator.h"

namespace std {}
namespace cuda {
namespace std {
using namespace ::std;
}
}  // namespace cuda
