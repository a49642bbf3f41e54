// Shuffles the elements of two vectors by index; those of the second follow those of the first. GCC has Clang's name of
// the builtin from version 12 on.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (bits){__VA_ARGS__})
#else
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
// The values of a function of all lane numbers.
#if LANES == 16
#define ORDER(a) a(0), a(1), a(2), a(3), a(4), a(5), a(6), a(7), a(8), a(9), a(10), a(11), a(12), a(13), a(14), a(15)
#elif LANES == 8
#define ORDER(a) a(0), a(1), a(2), a(3), a(4), a(5), a(6), a(7)
#else
#define ORDER(a) a(0), a(1), a(2), a(3)
#endif
