// The type in which sums are: float, or VALUE.
#ifdef VALUE
typedef VALUE Value;
#else
typedef float Value;
#endif
