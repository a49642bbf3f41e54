#pragma GCC system_header
// The header of the C++ library that writes `__attribute__((__noinline__))`, where CUDA's word of the
// same name must be none of ours.
#pragma push_macro("__noinline__")
#undef __noinline__
#include_next <bits/shared_ptr_base.h>
#pragma pop_macro("__noinline__")
