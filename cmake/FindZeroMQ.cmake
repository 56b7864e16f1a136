# libzmq with cppzmq's header by pkg-config: target ZeroMQ::cpp.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_ZEROMQ QUIET libzmq)
endif()
find_path(ZeroMQ_INCLUDE_DIR zmq.h HINTS ${PC_ZEROMQ_INCLUDE_DIRS})
find_path(ZeroMQ_CPP_INCLUDE_DIR zmq.hpp HINTS ${PC_ZEROMQ_INCLUDE_DIRS})
find_library(ZeroMQ_LIBRARY zmq HINTS ${PC_ZEROMQ_LIBRARY_DIRS})
set(ZeroMQ_VERSION ${PC_ZEROMQ_VERSION})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZeroMQ
  REQUIRED_VARS ZeroMQ_LIBRARY ZeroMQ_INCLUDE_DIR ZeroMQ_CPP_INCLUDE_DIR VERSION_VAR ZeroMQ_VERSION)
if(ZeroMQ_FOUND AND NOT TARGET ZeroMQ::cpp)
  add_library(ZeroMQ::cpp UNKNOWN IMPORTED)
  set_target_properties(ZeroMQ::cpp PROPERTIES IMPORTED_LOCATION ${ZeroMQ_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES "${ZeroMQ_INCLUDE_DIR};${ZeroMQ_CPP_INCLUDE_DIR}")
endif()
