typedef float float_v32 __attribute__((vector_size(VECTOR_BYTES < 32 ? VECTOR_BYTES : 32),
    aligned(sizeof(float)), may_alias));
