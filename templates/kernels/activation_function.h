// An activation that is given as an expression, ACTIVATION_FUNCTION, of the operand `x(0)`.
#define x(i) v
__device__ __forceinline__ float activation_function(float v) { return ACTIVATION_FUNCTION; }
#undef x
