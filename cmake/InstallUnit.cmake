# Run by `cmake --install`: installs the systemd unit PACELINE_UNIT with the folder of the program in it, PACELINE_BINDIR,
# which is below CMAKE_INSTALL_PREFIX unless it is absolute.
cmake_path(ABSOLUTE_PATH PACELINE_BINDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE OUTPUT_VARIABLE programs)
file(READ "${PACELINE_UNIT}" unit)
string(REPLACE "/usr/local/bin/" "${programs}/" unit "${unit}")
set(installed "${CMAKE_INSTALL_PREFIX}/lib/systemd/system/paceline.service")
message(STATUS "Installing: $ENV{DESTDIR}${installed}")
file(WRITE "$ENV{DESTDIR}${installed}" "${unit}")
