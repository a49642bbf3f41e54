#include <math.h>

void function_table_half_c(const _Float16* restrict X, _Float16* restrict Y) {
  for (int i = 0; i < 64; ++i) {
    Y[i] = (_Float16)((1.0f / (1.0f + expf(-((float)X[i])))) + (1.0f / sqrtf(fabsf((float)X[i]))) * erff((float)X[i]) - floorf((float)X[i]));
  }
}
