// A reducer of functions: BEFORE of each element that is reduced, AFTER of the result, both of one number `x(0)`.
#define x(i) element
template <class Reducer>
struct Mapped : Reducer {
  typedef typename Reducer::State State;
  static __device__ __forceinline__ void add(State& s, Value element, int index) {
    Reducer::add(s, BEFORE, index);
  }
#ifdef AFTER
  static __device__ __forceinline__ Value value(State s) {
    const Value element = Reducer::value(s);
    return AFTER;
  }
#endif
};
#undef x
