# The three ways to add code. One library target per folder, one test executable per folder of tests.

# paceline_library(NAME SOURCES a.cpp b.cpp [DEPS t1 t2] [PRIVATE_DEPS t3])
#   Makes the library target NAME (alias paceline::NAME without its prefix) of the calling folder. Sources are listed
#   by hand. Headers are included by their path from the root: "runtime/base/error.hpp".
function(paceline_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:paceline_warnings> ${ARG_PRIVATE_DEPS})
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  string(REPLACE "paceline_" "" short ${name})
  add_library(paceline::${short} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${short})
  target_include_directories(${name} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:include/paceline>)
  target_compile_features(${name} ${scope} cxx_std_20)
  target_link_libraries(${name} ${scope} ${ARG_DEPS})
  set_property(GLOBAL APPEND PROPERTY PACELINE_LIBRARIES ${name})
endfunction()

# Half of the build's time is that of tests. They compile in 60 % of it with -O1; what they test keeps its flags.
set(PACELINE_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)

# paceline_test(NAME SOURCES x_test.cpp ... [DEPS targets] [LABELS unit|actor|parity|property|e2e|gpu]
#               [PROPERTIES key value ...])
#   One GoogleTest executable, PROPERTIES for each of its cases; every *_test.cpp on disk must be registered (tests/registered_tests_test.py checks).
function(paceline_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS;PROPERTIES" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE paceline_warnings ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${PACELINE_TEST_OPTIONS})
  if(TARGET paceline_test_headers)
    target_precompile_headers(${name} REUSE_FROM paceline_test_headers)
    target_compile_options(${name} PRIVATE ${PACELINE_TEST_HEADERS_OPTIONS})
  endif()
  target_compile_definitions(${name} PRIVATE PACELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             PACELINE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600 ${ARG_PROPERTIES})
endfunction()

# paceline_pytest(NAME SCRIPT file.py [ARGS ...] [LABELS ...] [SECONDS n]): a Python check run as one ctest case.
#   SECONDS: about how long it takes. ctest begins with the longest, so that none is left over at the end.
function(paceline_pytest name)
  cmake_parse_arguments(ARG "" "SCRIPT;SECONDS" "ARGS;LABELS;ENV" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 10)
  endif()
  # Two test dependencies bring plugins that take 1.6 s to load, in every run.
  add_test(NAME ${name} COMMAND ${PACELINE_PYTHON} -m pytest -q -p no:cacheprovider -p no:schemathesis
                                -p no:hypothesispytest ${ARG_SCRIPT} ${ARG_ARGS}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 900 COST ${ARG_SECONDS}
    ENVIRONMENT "PACELINE_BIN=${PROJECT_BINARY_DIR}/bin/paceline;PACELINE_SOURCE_DIR=${PROJECT_SOURCE_DIR};PACELINE_BINARY_DIR=${PROJECT_BINARY_DIR};${ARG_ENV}")
endfunction()
