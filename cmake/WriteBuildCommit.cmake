# Writes the checkout's commit to OUTPUT, a header, when it has changed. Run at every build.
execute_process(COMMAND git describe --always --dirty --abbrev=10 --exclude=*
                WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define PACELINE_COMMIT \"${commit}\"\n")
