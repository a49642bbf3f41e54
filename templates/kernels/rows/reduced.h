// Results of the reducer REDUCER: of type int with AS_INT, of places and of sums of whole numbers, else elements.
typedef REDUCER::State State;
#if AS_INT
typedef int Result;
__device__ __forceinline__ void put(Result* out, State state) { *out = REDUCER::value(state); }
#else
typedef Element Result;
__device__ __forceinline__ void put(Result* out, State state) {
  const Value value[1] = {REDUCER::value(state)};
  store_elements<1>(out, value);
}
#endif
