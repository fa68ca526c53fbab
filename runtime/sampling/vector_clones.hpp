#pragma once

// Marks functions with plain loops that compilers vectorise: on x86 they are compiled once for each vector
// width, and the loader chooses one. Without floating-point contraction (set by CMake) all versions give the
// same bits. AddressSanitizer and ThreadSanitizer do not support this choice by the loader (ifunc).
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) &&                       \
    !defined(__SANITIZE_THREAD__)
#define PACELINE_VECTOR_CLONES [[gnu::target_clones("default", "avx2", "avx512f")]]
#else
#define PACELINE_VECTOR_CLONES
#endif
