# The parts of the limit of the processor, for the program and for its test.
include_guard(GLOBAL)
set(folder ${CMAKE_CURRENT_LIST_DIR})
add_library(limit_parts STATIC ${folder}/layers.cpp ${folder}/limit.cpp ${folder}/norm.cpp ${folder}/pool.cpp
            ${folder}/trial.cpp ${folder}/weighted.cpp)
target_include_directories(limit_parts PUBLIC ${folder})
target_link_libraries(limit_parts PUBLIC lockstep::models OneDNN::dnnl fmt::fmt PRIVATE lockstep_compiler)
# LibTorch was built so: with assertions, its class that tells of operators would have a member more.
target_compile_definitions(limit_parts PRIVATE NDEBUG)
lockstep_cold(limit_parts)
