# GoogleTest's headers and the standard library's take a third of a test's time to compile. They are compiled once, with the flags of paceline_test.
# The presets with sanitizers do without: they find a test that does not include what it uses. Libraries do without too: GCC 12 does not know of
# precompiled headers that they are the system's, and shows the false warnings of its bug 105651 in them. Libraries are not to lose these warnings.
option(PACELINE_PRECOMPILED_HEADERS "Compile the headers that all tests include once" ON)
if(PACELINE_PRECOMPILED_HEADERS AND PACELINE_BUILD_TESTS)
  set(PACELINE_TEST_HEADERS_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled/empty.cpp "")
  add_library(paceline_test_headers OBJECT ${PROJECT_BINARY_DIR}/precompiled/empty.cpp)
  set_target_properties(paceline_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(paceline_test_headers PRIVATE -fPIE ${PACELINE_TEST_OPTIONS})
  target_link_libraries(paceline_test_headers PRIVATE paceline_warnings GTest::gtest GTest::gmock)
  target_precompile_headers(paceline_test_headers PRIVATE
    <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque> <filesystem> <fstream> <functional> <limits>
    <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <unordered_map> <utility>
    <variant> <vector> <gmock/gmock.h> <gtest/gtest.h>)
endif()
