# The CUDA device is built where nvcc is. Its kernels are one source that nvcc compiles to one object; everything else
# of gpu/ is C++ for the ordinary compiler. CMake's own CUDA language is not enabled: it would link every program with
# nvcc, and hand it the flags that are meant for the C++ compiler.
set(PACELINE_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO (where nvcc is found), ON (or fail), OFF")
set_property(CACHE PACELINE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(PACELINE_CUDA_ARCHITECTURES "80;89;90" CACHE STRING
    "Compute capabilities to compile kernels for; PTX of the last one serves later GPUs")

set(PACELINE_HAS_CUDA OFF)
if(PACELINE_CUDA)
  find_package(CUDAToolkit 12 QUIET)
  find_program(PACELINE_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} ${CUDAToolkit_NVCC_EXECUTABLE})
  if(CUDAToolkit_FOUND AND PACELINE_NVCC AND TARGET CUDA::cudart_static)
    set(PACELINE_HAS_CUDA ON)
    # Its headers are enough: the library is looked for when a device is opened in fast mode.
    find_path(PACELINE_CUBLASLT_HEADERS cublasLt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
    if(NOT PACELINE_CUBLASLT_HEADERS)
      message(STATUS "CUDA device: without fast mode, there is no cublasLt.h")
    endif()
    message(STATUS "CUDA device: built, by nvcc ${CUDAToolkit_VERSION} for ${PACELINE_CUDA_ARCHITECTURES}")
  elseif(PACELINE_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA device: not built, there is no nvcc 12 or later")
  else()
    message(FATAL_ERROR "PACELINE_CUDA is ON, and there is no nvcc 12 or later with its static runtime")
  endif()
else()
  message(STATUS "CUDA device: not built, PACELINE_CUDA is OFF")
endif()

if(PACELINE_CCACHE)
  set(PACELINE_NVCC_LAUNCHER ${PACELINE_CCACHE})
endif()
# What nvcc is called with, kernels' roundings included: no fusing, and division and square root as IEEE has them.
set(PACELINE_NVCC_FLAGS -std=c++20 -O3 -fmad=false -prec-div=true -prec-sqrt=true -ftz=false --expt-relaxed-constexpr
    -Werror all-warnings -I${PROJECT_SOURCE_DIR})

# paceline_cuda_object(OUT source.cu): compiles a source with nvcc; OUT is the object to add to a library.
function(paceline_cuda_object out source)
  set(targets)
  foreach(architecture ${PACELINE_CUDA_ARCHITECTURES})
    list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
    set(last ${architecture})
  endforeach()
  list(APPEND targets -gencode arch=compute_${last},code=compute_${last})
  get_filename_component(name ${source} NAME)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${PACELINE_NVCC_LAUNCHER} ${PACELINE_NVCC} -ccbin ${CMAKE_CXX_COMPILER} ${PACELINE_NVCC_FLAGS} ${targets}
            -Xcompiler -fPIC -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPFILE ${object}.d
    COMMENT "Compiling ${source} with nvcc"
    VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${out} ${object} PARENT_SCOPE)
endfunction()
