# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Build helpers shared by every directory.

find_program(JPMHC_CCACHE ccache)
if(JPMHC_CCACHE)
  # A precompiled header is only cacheable when its time stamps are left out of the hash.
  set(ENV{CCACHE_SLOPPINESS} pch_defines,time_macros,include_file_mtime,include_file_ctime)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${JPMHC_CCACHE})
endif()

if(JPMHC_COMPILER)
  # The build id is part of the key of everything the compiler caches.
  add_link_options(-fuse-ld=lld -Wl,--build-id=sha1)
endif()

set(JPMHC_SANITIZER "" CACHE STRING "address (with undefined behaviour) or thread; empty for none")
set_property(CACHE JPMHC_SANITIZER PROPERTY STRINGS "" address thread)
if(JPMHC_SANITIZER STREQUAL address)
  # vptr checks need RTTI, which LLVM is built without.
  # Coverage is for the fuzzers, which are built beside the tests.
  add_compile_options(-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize=vptr,function -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined -shared-libsan)
elseif(JPMHC_SANITIZER STREQUAL thread)
  add_compile_options(-fsanitize=thread -g1)
  add_link_options(-fsanitize=thread -shared-libsan)
elseif(JPMHC_SANITIZER)
  message(FATAL_ERROR "expected JPMHC_SANITIZER to be address, thread or empty, got ${JPMHC_SANITIZER}")
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# What follows is for code that uses MLIR.
if(NOT JPMHC_COMPILER)
  return()
endif()

# One precompiled header serves all C++ that includes MLIR (a file costs 7-10 s without, under 2 s with it).
add_library(JPMHCPrecompiled OBJECT ${CMAKE_SOURCE_DIR}/cmake/Precompiled.cpp)
llvm_update_compile_flags(JPMHCPrecompiled)
target_compile_options(JPMHCPrecompiled PRIVATE -fpch-instantiate-templates)
target_precompile_headers(JPMHCPrecompiled PRIVATE
                          "$<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/cmake/Precompiled.h>")

# jpmhc_add_library(NAME SOURCES... [DEPENDS targets...] [LINK libraries...])
function(jpmhc_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  target_precompile_headers(${name} REUSE_FROM JPMHCPrecompiled)
  target_compile_options(${name} PRIVATE -fpch-instantiate-templates)
  add_dependencies(${name} JPMHCGenerated ${ARG_DEPENDS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  mlir_target_link_libraries(${name} PUBLIC MLIR)
  target_link_libraries(${name} PUBLIC LLVM)
endfunction()

# jpmhc_add_tool(NAME SOURCES... [LINK libraries...])
function(jpmhc_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  # The precompiled header is compiled as for a library; an executable must agree with it.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC -fpch-instantiate-templates)
  target_precompile_headers(${name} REUSE_FROM JPMHCPrecompiled)
  add_dependencies(${name} JPMHCGenerated)
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  mlir_target_link_libraries(${name} PRIVATE MLIR)
endfunction()

# jpmhc_add_unittest(NAME SOURCES... [LINK libraries...]): a GoogleTest program that ctest runs.
function(jpmhc_add_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  jpmhc_add_tool(${name} ${ARG_UNPARSED_ARGUMENTS} LINK ${ARG_LINK} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
