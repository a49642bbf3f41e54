typedef float float_v64 __attribute__((vector_size(VECTOR_BYTES < 64 ? VECTOR_BYTES : 64),
    aligned(sizeof(float)), may_alias));
