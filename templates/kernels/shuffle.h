// Picks elements of two vectors by their numbers, those of the second after those of the first.
// GCC has the name that Clang gives it from version 12 on.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#define WOVEN(a, b, ...) __builtin_shuffle(a, b, (bits){__VA_ARGS__})
#else
#define WOVEN(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
