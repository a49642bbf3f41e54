// CUDA sources include this name; everything it offers is in one header.
#pragma once
#include "../cooperative_groups.h"
