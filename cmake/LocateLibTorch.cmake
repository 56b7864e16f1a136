# lockstep_locate_libtorch(<where> <root variable> <version variable>)
#
# <where>: a LibTorch folder, a Python interpreter that has torch, or a virtual environment with such an
# interpreter. Sets both variables to "" where there is no LibTorch.
#
# As a script it prints "<version> <root>": cmake -DWHERE=<where> -P cmake/LocateLibTorch.cmake

function(lockstep_locate_libtorch where root_variable version_variable)
  set(root "")
  if(EXISTS ${where}/lib/libtorch_cpu.so)
    set(root ${where})
  else()
    set(python ${where})
    if(IS_DIRECTORY ${where})
      set(python ${where}/bin/python3)
    endif()
    if(EXISTS ${python})
      # find_spec does not import torch: the three CPU wheels alone cannot be imported from Python.
      execute_process(
        COMMAND ${python} -c
          "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
        OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endif()
  if(NOT EXISTS "${root}/lib/libtorch_cpu.so")
    set(root "")
  endif()

  set(version "")
  if(root)
    set(header ${root}/include/torch/headeronly/version.h)
    if(NOT EXISTS ${header})
      set(header ${root}/include/torch/csrc/api/include/torch/version.h)
    endif()
    if(EXISTS ${header})
      file(STRINGS ${header} lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" version "${lines}")
    endif()
  endif()
  set(${root_variable} "${root}" PARENT_SCOPE)
  set(${version_variable} "${version}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  lockstep_locate_libtorch("${WHERE}" root version)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${version} ${root}")
endif()
