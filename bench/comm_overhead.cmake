# comm_overhead calls both libraries itself, so it is built where both are there.
find_package(MPI QUIET COMPONENTS CXX)
find_path(GLOO_INCLUDE_DIR gloo/allreduce.h)
find_library(GLOO_LIBRARY gloo)
if(TARGET lockstep_gloo AND TARGET lockstep_mpi)
  add_executable(comm_overhead comm_overhead.cpp ../tests/comm/folder_store.cpp)
  target_include_directories(comm_overhead PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_include_directories(comm_overhead SYSTEM PRIVATE ${GLOO_INCLUDE_DIR} ${MPI_CXX_INCLUDE_DIRS})
  target_link_libraries(comm_overhead PRIVATE
    lockstep::comm lockstep::measure fmt::fmt ${GLOO_LIBRARY} MPI::MPI_CXX lockstep_compiler)
  target_compile_definitions(comm_overhead PRIVATE OMPI_SKIP_MPICXX)
  # Beside the plugins, where the program looks for them.
  set_target_properties(comm_overhead PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  add_dependencies(comm_overhead lockstep_gloo lockstep_mpi)
else()
  message(STATUS "comm_overhead needs both Gloo and MPI: not built")
endif()
