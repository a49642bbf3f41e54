// Transposes 4 x 4 integers of 8 bits: byte i of word j becomes byte j of word i.
__device__ __forceinline__ void transpose_int8(unsigned (&word)[4]) {
  const unsigned low = __byte_perm(word[0], word[1], 0x5140), low2 = __byte_perm(word[2], word[3], 0x5140);
  const unsigned high = __byte_perm(word[0], word[1], 0x7362), high2 = __byte_perm(word[2], word[3], 0x7362);
  word[0] = __byte_perm(low, low2, 0x5410), word[1] = __byte_perm(low, low2, 0x7632);
  word[2] = __byte_perm(high, high2, 0x5410), word[3] = __byte_perm(high, high2, 0x7632);
}
