# Every outside package, in one place; docs/dependencies.md says what each is for.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
if(PACELINE_BUILD_TESTS)
  find_package(Boost 1.81 REQUIRED COMPONENTS context) # stacks of emulated threads
endif()
find_package(yaml-cpp REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit) # line editing of `paceline chat`
find_package(CLI11 REQUIRED)
include(FindCAF)
include(FindXGrammar)
if(PACELINE_SANITIZE MATCHES "thread" AND NOT CAF_core_LIBRARY MATCHES "caf-tsan")
  message(FATAL_ERROR "ThreadSanitizer needs a CAF that is built with it: run deploy/caf_for_tsan.sh first")
endif()
if(PACELINE_SANITIZE MATCHES "undefined")
  # CAF's headers cast the head of a queue to an element and bind a reference to a null tuple: theirs, not ours, and in
  # every actor. Rooms that see CAF do without these two checks; AddressSanitizer still stops at a null pointer.
  set_property(TARGET CAF::core APPEND PROPERTY INTERFACE_COMPILE_OPTIONS "-fno-sanitize=null,vptr")
endif()

if(PACELINE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  # deploy/python_env.sh makes this environment; without it the system's python3 must have the packages.
  find_program(PACELINE_PYTHON NAMES python3 HINTS ${PROJECT_SOURCE_DIR}/.cache/venv/bin NO_CMAKE_SYSTEM_PATH NO_SYSTEM_ENVIRONMENT_PATH)
  if(NOT PACELINE_PYTHON)
    find_program(PACELINE_PYTHON_FALLBACK NAMES python3 REQUIRED)
    set(PACELINE_PYTHON ${PACELINE_PYTHON_FALLBACK})
  endif()
endif()
if(PACELINE_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
