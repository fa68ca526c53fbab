# The installed library: `find_package(paceline)` gives the target paceline::engine. Its public headers need nothing but
# the standard library; its static libraries need the packages that paceline-config.cmake finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY PACELINE_LIBRARIES)
install(TARGETS ${libraries} EXPORT PacelineTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/paceline)
if(PACELINE_HAS_XGRAMMAR)
  install(FILES ${XGrammar_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR}/paceline)
endif()
install(TARGETS paceline RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The service, with the folder of the program in it, and all that its first lines and the README name.
install(CODE "set(PACELINE_UNIT \"${PROJECT_SOURCE_DIR}/deploy/paceline.service\")
  set(PACELINE_BINDIR \"${CMAKE_INSTALL_BINDIR}\")")
install(SCRIPT cmake/InstallUnit.cmake)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY config/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}/config)
install(FILES config/README.md config/schema.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/config)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(PACELINE_HAS_XGRAMMAR)
  # deploy/xgrammar.sh puts them there; a copy from elsewhere may keep them elsewhere.
  install(FILES ${PACELINE_XGRAMMAR_DIR}/share/LICENSE ${PACELINE_XGRAMMAR_DIR}/share/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR}/xgrammar OPTIONAL)
endif()
install(EXPORT PacelineTargets FILE paceline-targets.cmake NAMESPACE paceline:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/paceline)

set(public_headers
  engine/engine.hpp engine/snapshot.hpp engine/served_model.hpp config/engine_options.hpp
  runtime/base/clock.hpp runtime/base/error.hpp runtime/base/expected.hpp runtime/base/ids.hpp runtime/base/kv_type.hpp
  runtime/base/pass_time.hpp runtime/base/request.hpp runtime/base/shared_list.hpp runtime/base/token_event.hpp
  runtime/tokenizer/tokenizer.hpp runtime/tokenizer/vocabulary.hpp)
foreach(header ${public_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/paceline/${folder})
endforeach()

configure_package_config_file(cmake/paceline-config.cmake.in ${CMAKE_BINARY_DIR}/paceline-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/paceline)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/paceline-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/paceline-config.cmake ${CMAKE_BINARY_DIR}/paceline-config-version.cmake cmake/FindCAF.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/paceline)
