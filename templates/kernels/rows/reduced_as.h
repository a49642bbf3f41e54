// Results of the reducer REDUCER as numbers of the type RESULT, which is not that of elements.
typedef REDUCER::State State;
typedef RESULT Result;
__device__ __forceinline__ void put(Result* out, State state) { *out = static_cast<Result>(REDUCER::value(state)); }
