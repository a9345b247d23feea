# The HTTP parser, as the target sluice_llhttp. Where the system has it as a library (libllhttp
# with a pkg-config or CMake file) that is linked; Debian 12 ships the generated C and the header in
# the package node-llhttp, and then they are compiled here, once, with warnings off because they
# are not ours.
#
# LLHTTP_STRICT_MODE=1: the loose default lets through what request smuggling is made of. It must
# reach our own file too, for the header changes with it.
pkg_check_modules(LLHTTP QUIET IMPORTED_TARGET libllhttp)
find_package(llhttp QUIET CONFIG)
set(LLHTTP_SOURCE_DIR /usr/share/llhttp)
find_path(LLHTTP_INCLUDE_DIR llhttp.h PATHS /usr/share/include PATH_SUFFIXES llhttp)

if(LLHTTP_FOUND AND TARGET PkgConfig::LLHTTP)
    add_library(sluice_llhttp INTERFACE)
    target_link_libraries(sluice_llhttp INTERFACE PkgConfig::LLHTTP)
elseif(TARGET llhttp::llhttp)
    add_library(sluice_llhttp INTERFACE)
    target_link_libraries(sluice_llhttp INTERFACE llhttp::llhttp)
elseif(LLHTTP_INCLUDE_DIR AND EXISTS "${LLHTTP_SOURCE_DIR}/llhttp.c")
    file(GLOB llhttp_sources CONFIGURE_DEPENDS "${LLHTTP_SOURCE_DIR}/*.c")
    add_library(sluice_llhttp STATIC ${llhttp_sources})
    target_include_directories(sluice_llhttp SYSTEM PUBLIC "${LLHTTP_INCLUDE_DIR}"
                               "${LLHTTP_INCLUDE_DIR}/..")
    target_compile_definitions(sluice_llhttp PUBLIC LLHTTP_STRICT_MODE=1)
    target_compile_options(sluice_llhttp PRIVATE -w)

    # llhttp.c can take 16 bytes of a header at once with SSE 4.2, if it is compiled for it. So on
    # x86-64 it is compiled twice, and llhttp_choose.c takes the copy that the CPU can run. Both
    # copies define the same symbols: in the second all but one become local.
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
        add_library(sluice_llhttp_sse42 OBJECT "${LLHTTP_SOURCE_DIR}/llhttp.c")
        target_include_directories(sluice_llhttp_sse42 SYSTEM PRIVATE "${LLHTTP_INCLUDE_DIR}")
        target_compile_definitions(sluice_llhttp_sse42 PRIVATE LLHTTP_STRICT_MODE=1
                                   llhttp__internal_execute=llhttp__internal_execute_sse42)
        target_compile_options(sluice_llhttp_sse42 PRIVATE -w -msse4.2)
        set(sse42_object "${PROJECT_BINARY_DIR}/llhttp_sse42.o")
        add_custom_command(OUTPUT "${sse42_object}" VERBATIM
            COMMAND "${CMAKE_OBJCOPY}" --keep-global-symbol=llhttp__internal_execute_sse42
                    $<TARGET_OBJECTS:sluice_llhttp_sse42> "${sse42_object}"
            DEPENDS sluice_llhttp_sse42 $<TARGET_OBJECTS:sluice_llhttp_sse42>)
        target_sources(sluice_llhttp PRIVATE "${sse42_object}" cmake/llhttp_choose.c)
        target_compile_definitions(sluice_llhttp PUBLIC LLHTTP_COPIES=1)
        # The only caller.
        set_source_files_properties("${LLHTTP_SOURCE_DIR}/api.c" PROPERTIES COMPILE_DEFINITIONS
                                    llhttp__internal_execute=llhttp__internal_execute_chosen)
    endif()
else()
    message(FATAL_ERROR "llhttp is missing: script/bootstrap build installs it (node-llhttp)")
endif()
