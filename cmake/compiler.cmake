# One set of flags for all of our code.
add_library(tarry_flags INTERFACE)
target_compile_options(tarry_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
# Everywhere, so that one precompiled header fits all (re2 and threads ask for -pthread).
target_compile_options(tarry_flags INTERFACE -pthread)
target_include_directories(tarry_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(tarry_flags INTERFACE BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION
  BOOST_ASIO_NO_DEPRECATED TARRYMQ_VERSION="${PROJECT_VERSION}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of bounds it gets wrong in inlined containers; the sanitizer builds look for the real thing.
  target_compile_options(tarry_flags INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict
    -Wno-maybe-uninitialized -Wno-stringop-overread)
  # In a unity batch GCC takes every source for a header and warns of types with internal linkage.
  target_compile_options(tarry_flags INTERFACE -Wno-subobject-linkage)
  # Needed by ccache to see through a precompiled header.
  target_compile_options(tarry_flags INTERFACE -fpch-preprocess)
endif()
if(TARRY_SANITIZE)
  target_compile_options(tarry_flags INTERFACE -fsanitize=${TARRY_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tarry_flags INTERFACE -fsanitize=${TARRY_SANITIZE})
  if(TARRY_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio's fences, which the sanitizer does not see: what crosses threads there goes through its mutex too.
    target_compile_options(tarry_flags INTERFACE -Wno-tsan)
  endif()
endif()
find_program(TARRY_LLD ld.lld)
if(TARRY_LLD)
  target_link_options(tarry_flags INTERFACE -fuse-ld=lld)
endif()
find_program(TARRY_CCACHE ccache)
if(TARRY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TARRY_CCACHE})
endif()

# One precompiled header of the standard library for every room.
file(WRITE ${CMAKE_BINARY_DIR}/tarry_pch.cc "")
add_library(tarry_pch OBJECT ${CMAKE_BINARY_DIR}/tarry_pch.cc)
target_link_libraries(tarry_pch PRIVATE tarry_flags)
set(tarry_pch_headers <algorithm> <array> <atomic> <bit> <chrono> <cstddef> <cstdint> <cstring> <deque> <functional> <map>
  <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <variant>
  <vector>)
target_precompile_headers(tarry_pch PRIVATE ${tarry_pch_headers})
