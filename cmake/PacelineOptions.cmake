# Options, the language level and the warnings every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_BUILD_RPATH "$ORIGIN/lib") # for deploy/bundle.sh; where there is no such folder, nothing

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

option(PACELINE_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(PACELINE_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(PACELINE_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
# Most of a source's time to compile is that of the headers it includes. Names in unnamed namespaces must differ among eight neighbours
# in a list of sources for this (docs/decisions/0662).
option(PACELINE_UNITY_BUILD "Compile sources eight at a time" OFF)
if(PACELINE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
  # GCC 12 inlines more then, and warns of optional values that are set. It also takes a class with a member of a type in an unnamed
  # namespace for one of a header.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
set(PACELINE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them (address,undefined or thread)")

# Results are defined to the bit: the compiler may not fuse or reorder floating-point operations on its own.
# Kernels that want a fused multiply-add say so.
add_compile_options(-ffp-contract=off)

find_program(PACELINE_CCACHE ccache)
if(PACELINE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Otherwise it stores nothing that is compiled with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${PACELINE_CCACHE})
endif()
find_program(PACELINE_MOLD mold)
if(PACELINE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
if(PACELINE_SANITIZE)
  add_compile_options(-fsanitize=${PACELINE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${PACELINE_SANITIZE})
  # GCC 12 cannot follow std::optional through the sanitizers' instrumentation and warns of values that are set.
  add_compile_options(-Wno-maybe-uninitialized)
endif()

add_library(paceline_warnings INTERFACE)
# GCC 12 warns of overlapping copies in `"literal" + std::string` (its bug 105651): no such code is wrong.
target_compile_options(paceline_warnings INTERFACE -Wall -Wextra -Wshadow=local -Wnon-virtual-dtor -Woverloaded-virtual
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                       $<$<BOOL:${PACELINE_WERROR}>:-Werror>)
