# Debian's libcaf-dev installs neither a CMake package nor pkg-config files.
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
foreach(component core io openssl)
  find_library(CAF_${component}_LIBRARY caf_${component} REQUIRED)
  if(NOT TARGET CAF::${component})
    add_library(CAF::${component} UNKNOWN IMPORTED)
    set_target_properties(CAF::${component} PROPERTIES IMPORTED_LOCATION ${CAF_${component}_LIBRARY}
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR} INTERFACE_LINK_LIBRARIES Threads::Threads)
  endif()
endforeach()
# A message type without an id must fail to compile, not at run time.
set_property(TARGET CAF::core APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS CAF_ENABLE_TYPE_ID_CHECKS)
