#pragma once

// Marks functions of plain C++ loops that compilers turn into vector code: on x86 they are compiled once per
// vector width and chosen at load time. Without contraction (CMake sets it) all versions give the same bits.
// Sanitizers and the loader's resolvers do not mix.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) &&                       \
    !defined(__SANITIZE_THREAD__)
#define PACELINE_VECTOR_CLONES [[gnu::target_clones("default", "avx2", "avx512f")]]
#else
#define PACELINE_VECTOR_CLONES
#endif
