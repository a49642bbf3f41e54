// Transposes BATCH planes of ROWS x COLUMNS elements of BYTES bytes, contiguous before and after, of any extents.
//
// A block moves PLANES whole planes, one contiguous run of bytes in the data as in the result, or PART rows or columns
// of a plane along its longer axis: a run on one side, and on the other side a piece for each index of the shorter
// axis. Elements are transposed on their way out of shared memory with GATHER, else on their way into it. That side
// moves WORD bytes at a time, the other one 16; what precedes the first aligned word of a run, and follows the last,
// moves as elements.
#if BYTES == 1
typedef unsigned char Element;
#elif BYTES == 2
typedef unsigned short Element;
#elif BYTES == 4
typedef unsigned Element;
#else
typedef unsigned long long Element;
#endif
#if ELEMENTS < 1073741824
typedef unsigned Index;
#else
typedef unsigned long long Index;
#endif

constexpr unsigned LONGER = ROWS > COLUMNS ? ROWS : COLUMNS, SHORTER = ROWS > COLUMNS ? COLUMNS : ROWS;
constexpr unsigned PLANE = ROWS * COLUMNS, RUN = PART ? PART * SHORTER : PLANES * PLANE;
constexpr unsigned PARTS = PART ? (LONGER + PART - 1) / (PART ? PART : 1) : 1;
constexpr bool FULL = PART ? LONGER % (PART ? PART : 1) == 0 : BATCH % PLANES == 0;
constexpr unsigned WIDE = 16 / BYTES, NARROW = WORD / BYTES;
// Loads of a thread that are in flight together.
constexpr unsigned AT_ONCE = 4;

template <unsigned EACH>
struct alignas(BYTES* EACH) Vector {
  Element at[EACH];
};

// A run as aligned words of EACH elements, and the elements before and after these.
template <unsigned EACH>
struct Words {
  static constexpr bool aligned = RUN % EACH == 0 && (PART == 0 || PLANE % EACH == 0);
  unsigned head, count, others;

  __device__ __forceinline__ Words(Index begin, unsigned elements) {
    const unsigned before = aligned ? 0 : (EACH - static_cast<unsigned>(begin % EACH)) % EACH;
    head = before < elements ? before : elements;
    count = (elements - head) / EACH;
    others = aligned && FULL ? 0 : elements - count * EACH;
  }
  // Index of the first element of a word, and of an element of none.
  __device__ __forceinline__ unsigned first(unsigned word) const { return head + word * EACH; }
  __device__ __forceinline__ unsigned other(unsigned i) const { return i < head ? i : i + count * EACH; }
};

// Index in a run of transposed planes of an element of a run of planes ACROSS elements wide.
template <unsigned DOWN, unsigned ACROSS>
__device__ __forceinline__ unsigned transposed(unsigned e) {
  const unsigned plane = e / PLANE, inner = e % PLANE;
  return plane * PLANE + inner % ACROSS * DOWN + inner / ACROSS;
}

// Words of a piece of a whole run. Of the last run of a plane pieces have fewer, but are counted like others: numbers of
// words are divided by constants so.
constexpr unsigned PIECE = PART ? PART / NARROW : 1;

__device__ __forceinline__ bool always(unsigned) { return true; }

// Loads all words of `count` that exist and whose number the thread has, several at a time; hands them to `put`.
template <unsigned EACH, typename Exists, typename From, typename Put>
__device__ __forceinline__ void each_word(unsigned count, Exists exists, From from, Put put) {
  for (unsigned begin = threadIdx.x; begin < count; begin += AT_ONCE * THREADS) {
    Vector<EACH> read[AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; ++i)
      if (begin + i * THREADS < count && exists(begin + i * THREADS))
        read[i] = *reinterpret_cast<const Vector<EACH>*>(from(begin + i * THREADS));
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; ++i)
      if (begin + i * THREADS < count && exists(begin + i * THREADS)) put(begin + i * THREADS, read[i]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) transpose_runs(
    const Element* __restrict__ data, Element* __restrict__ out) {
  extern __shared__ uint4 shared_memory[];
  const unsigned part = blockIdx.x % PARTS * PART;
  const Index plane = static_cast<Index>(blockIdx.x / PARTS) * (PART ? 1 : PLANES) * PLANE;
  const Index begin = plane + part * SHORTER;
  const Index end = PART ? plane + PLANE : ELEMENTS;
  const unsigned count = !FULL && end - begin < RUN ? static_cast<unsigned>(end - begin) : RUN;
  // Words are aligned alike in shared memory and in the run.
  const unsigned shift = Words<WIDE>::aligned ? 0 : static_cast<unsigned>(begin % WIDE);
  Element* const run = reinterpret_cast<Element*>(shared_memory) + shift;
  const Words<WIDE> wide(begin, count);
#if PART
  const unsigned words = count / SHORTER / NARROW;  // of a piece
  const auto in_piece = [&](unsigned word) { return FULL || word % PIECE < words; };
#endif
#if GATHER
  each_word<WIDE>(
      wide.count, always, [&](unsigned word) { return data + begin + wide.first(word); },
      [&](unsigned word, const Vector<WIDE>& read) {
        *reinterpret_cast<Vector<WIDE>*>(run + wide.first(word)) = read;
      });
  if (threadIdx.x < wide.others) run[wide.other(threadIdx.x)] = data[begin + wide.other(threadIdx.x)];
  __syncthreads();
#if PART
#pragma unroll AT_ONCE
  for (unsigned word = threadIdx.x; word < SHORTER * PIECE; word += THREADS) {
    const unsigned piece = word / PIECE, first = word % PIECE * NARROW;
    if (!in_piece(word)) continue;
    Vector<NARROW> value;
#pragma unroll
    for (unsigned k = 0; k < NARROW; ++k) value.at[k] = run[(first + k) * SHORTER + piece];
    *reinterpret_cast<Vector<NARROW>*>(out + plane + piece * LONGER + part + first) = value;
  }
#else
  const Words<NARROW> narrow(begin, count);
#pragma unroll AT_ONCE
  for (unsigned word = threadIdx.x; word < narrow.count; word += THREADS) {
    Vector<NARROW> value;
#pragma unroll
    for (unsigned k = 0; k < NARROW; ++k) value.at[k] = run[transposed<COLUMNS, ROWS>(narrow.first(word) + k)];
    *reinterpret_cast<Vector<NARROW>*>(out + begin + narrow.first(word)) = value;
  }
  if (threadIdx.x < narrow.others) {
    const unsigned e = narrow.other(threadIdx.x);
    out[begin + e] = run[transposed<COLUMNS, ROWS>(e)];
  }
#endif
#else
#if PART
  each_word<NARROW>(
      SHORTER * PIECE, in_piece,
      [&](unsigned word) { return data + plane + word / PIECE * LONGER + part + word % PIECE * NARROW; },
      [&](unsigned word, const Vector<NARROW>& read) {
#pragma unroll
        for (unsigned k = 0; k < NARROW; ++k)
          run[(word % PIECE * NARROW + k) * SHORTER + word / PIECE] = read.at[k];
      });
#else
  const Words<NARROW> narrow(begin, count);
  each_word<NARROW>(
      narrow.count, always, [&](unsigned word) { return data + begin + narrow.first(word); },
      [&](unsigned word, const Vector<NARROW>& read) {
#pragma unroll
        for (unsigned k = 0; k < NARROW; ++k)
          run[transposed<ROWS, COLUMNS>(narrow.first(word) + k)] = read.at[k];
      });
  if (threadIdx.x < narrow.others) {
    const unsigned e = narrow.other(threadIdx.x);
    run[transposed<ROWS, COLUMNS>(e)] = data[begin + e];
  }
#endif
  __syncthreads();
#pragma unroll AT_ONCE
  for (unsigned word = threadIdx.x; word < wide.count; word += THREADS)
    *reinterpret_cast<Vector<WIDE>*>(out + begin + wide.first(word)) =
        *reinterpret_cast<const Vector<WIDE>*>(run + wide.first(word));
  if (threadIdx.x < wide.others) out[begin + wide.other(threadIdx.x)] = run[wide.other(threadIdx.x)];
#endif
}
