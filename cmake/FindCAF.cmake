# Debian's libcaf-dev installs neither a CMake package nor pkg-config files. CMAKE_PREFIX_PATH names another copy.
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
find_library(CAF_core_LIBRARY caf_core REQUIRED)
if(NOT TARGET CAF::core)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES IMPORTED_LOCATION ${CAF_core_LIBRARY}
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR} INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
# A message type without an id must fail to compile, not at run time.
set_property(TARGET CAF::core APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS CAF_ENABLE_TYPE_ID_CHECKS)
