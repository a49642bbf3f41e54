// Where images and results of NCHW convolutions lie. With DATA_PLANES they are planes of volumes: a channel of a volume has
// so many of data, and RESULT_PLANES of results. Result plane p reads PLANE_TAPS planes of each channel of the volume, from
// p * PLANE_STEP - PLANES_BEFORE on, PLANE_DILATION apart: these are the channels of its image. With PLANES_PADDED some do
// not exist, and are zeros.
#ifdef DATA_PLANES
constexpr bool IN_VOLUMES = true;
#else
#define DATA_PLANES 1
#define RESULT_PLANES 1
#define PLANE_TAPS 1
#define PLANE_STEP 1
#define PLANES_BEFORE 0
#define PLANE_DILATION 1
#define PLANES_PADDED 0
constexpr bool IN_VOLUMES = false;
#endif

// The plane of the volume that an image's first channel is, which may not exist.
__device__ __forceinline__ int first_plane(int n) { return n % RESULT_PLANES * PLANE_STEP - PLANES_BEFORE; }

// The first element of that plane; a plane has OF_PLANE elements, an image OF_CHANNELS planes.
template <int OF_CHANNELS, int OF_PLANE>
__device__ __forceinline__ int data_of_image(int n) {
  return n / RESULT_PLANES * (OF_CHANNELS / PLANE_TAPS * DATA_PLANES * OF_PLANE) + first_plane(n) * OF_PLANE;
}

// The distance of a channel's plane from that one.
template <int OF_PLANE>
__device__ __forceinline__ int plane_of(int channel) {
  return channel / PLANE_TAPS * (DATA_PLANES * OF_PLANE) + channel % PLANE_TAPS * (PLANE_DILATION * OF_PLANE);
}

// Whether a channel's plane exists.
__device__ __forceinline__ bool plane_exists(int first, int channel) {
  return !PLANES_PADDED || static_cast<unsigned>(first + channel % PLANE_TAPS * PLANE_DILATION) < DATA_PLANES;
}

// A pixel of a channel of an image's results.
template <int OF_CHANNELS, int OF_PLANE>
__device__ __forceinline__ int result_at(int n, int channel, int pixel) {
  return ((n / RESULT_PLANES * OF_CHANNELS + channel) * RESULT_PLANES + n % RESULT_PLANES) * OF_PLANE + pixel;
}
