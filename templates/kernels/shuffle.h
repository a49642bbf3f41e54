// Shuffles the elements of two vectors by index; those of the second follow those of the first. GCC has Clang's name of
// the builtin from version 12 on.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (bits){__VA_ARGS__})
#else
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
