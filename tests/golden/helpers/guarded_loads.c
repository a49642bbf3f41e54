#if !defined(__clang__) && (__GNUC__ == 12 || __GNUC__ == 13)
#pragma GCC optimize("no-tree-loop-if-convert")
#endif
