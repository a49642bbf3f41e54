// Textures and surfaces, which are not emulated: a kernel that reads one is told so where it does.
#pragma once

#include "keywords.h"

using cudaTextureObject_t = unsigned long long;
using cudaSurfaceObject_t = unsigned long long;

namespace emulator {
template <typename...>
constexpr bool has_textures = false;
}

#define EMULATOR_TEXTURE(name)                                                               \
  template <typename T = void, typename... Of>                                               \
  T name(Of...) {                                                                            \
    static_assert(emulator::has_textures<T, Of...>,                                          \
                  #name ": the emulator has no textures and surfaces; write an alternative " \
                  "under #ifdef AUTOTUNE_EMULATE");                                          \
  }
EMULATOR_TEXTURE(tex1Dfetch)
EMULATOR_TEXTURE(tex1D)
EMULATOR_TEXTURE(tex1DLod)
EMULATOR_TEXTURE(tex1DLayered)
EMULATOR_TEXTURE(tex2D)
EMULATOR_TEXTURE(tex2DLod)
EMULATOR_TEXTURE(tex2DLayered)
EMULATOR_TEXTURE(tex2Dgather)
EMULATOR_TEXTURE(tex3D)
EMULATOR_TEXTURE(tex3DLod)
EMULATOR_TEXTURE(texCubemap)
EMULATOR_TEXTURE(surf1Dread)
EMULATOR_TEXTURE(surf1Dwrite)
EMULATOR_TEXTURE(surf2Dread)
EMULATOR_TEXTURE(surf2Dwrite)
EMULATOR_TEXTURE(surf3Dread)
EMULATOR_TEXTURE(surf3Dwrite)
#undef EMULATOR_TEXTURE
