# How targets are made here: rooms (folders of src), the web files in the binary, and tests.

# What every file of ours is compiled with.
add_library(sluice_flags INTERFACE)
target_compile_options(sluice_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wpointer-arith -Wvla>)

# What every file of src, and of its tests for the sake of headers, is compiled with besides.
# Counting branches wants none of them optimized away. Counts are exact in one thread only (atomic
# ones take four times as long), so script/coverage leaves out the tests labelled `threaded`.
add_library(sluice_counted INTERFACE)
target_compile_options(sluice_counted INTERFACE
    $<$<AND:$<BOOL:${SLUICE_COVERAGE}>,$<COMPILE_LANGUAGE:C>>:-O0 --coverage>)
target_link_options(sluice_counted INTERFACE $<$<BOOL:${SLUICE_COVERAGE}>:--coverage>)

# sluice_room(NAME FOLDER dir [WITHOUT file...] [USES target...] [VENDOR target...])
#
# A static library sluice_NAME from src/dir/*.c. USES passes on to whoever links it; VENDOR is
# linked without its headers leaving the room. Header-only and empty folders become INTERFACE.
function(sluice_room name)
    cmake_parse_arguments(room "" "FOLDER" "WITHOUT;USES;VENDOR" ${ARGN})
    set(dir "${PROJECT_SOURCE_DIR}/src/${room_FOLDER}")
    file(GLOB sources CONFIGURE_DEPENDS "${dir}/*.c")
    foreach(file IN LISTS room_WITHOUT)
        list(REMOVE_ITEM sources "${dir}/${file}")
    endforeach()
    if(sources)
        add_library(sluice_${name} STATIC ${sources})
        target_include_directories(sluice_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src"
                                   "${PROJECT_BINARY_DIR}/include")
        target_link_libraries(sluice_${name} PUBLIC ${room_USES} PRIVATE ${room_VENDOR}
                              sluice_flags sluice_counted)
    else()
        add_library(sluice_${name} INTERFACE)
        target_include_directories(sluice_${name} INTERFACE "${PROJECT_SOURCE_DIR}/src"
                                   "${PROJECT_BINARY_DIR}/include")
        target_link_libraries(sluice_${name} INTERFACE ${room_USES} ${room_VENDOR})
    endif()
endfunction()

# sluice_files(NAME dir TABLE [NPM path=file...])
#
# Every file under dir, in the read-only data of the binary, behind a table TABLE and its TABLE_count
# (rows as in pages/assets.h and backend/redis/scripts.c, which the last section repeats). The
# assembler includes the bytes themselves: no converter to build or trust, and a changed file is
# assembled again. Of what npm brought into dir only the files named by NPM are taken, under the path
# before the equals sign; without npm's they are left out, and the build says so.
function(sluice_files name folder table)
    cmake_parse_arguments(files "" "" "NPM" ${ARGN})
    set(dir "${PROJECT_SOURCE_DIR}/${folder}")
    set(assembly "${PROJECT_BINARY_DIR}/${table}.s")
    file(GLOB_RECURSE files CONFIGURE_DEPENDS LIST_DIRECTORIES false RELATIVE "${dir}" "${dir}/*")
    list(FILTER files EXCLUDE REGEX "^(node_modules/|package(-lock)?\\.json$)")
    foreach(file IN LISTS files)
        list(APPEND pairs "${file}=${file}")
    endforeach()
    foreach(pair IN LISTS files_NPM)
        string(REGEX REPLACE "^[^=]*=" "" file "${pair}")
        if(EXISTS "${dir}/${file}")
            list(APPEND pairs "${pair}")
        else()
            message(WARNING "${folder}/${file} is missing; script/bootstrap brings it")
        endif()
    endforeach()
    list(SORT pairs)
    list(LENGTH pairs count)
    set(bytes "    .section .rodata\n")
    set(rows "    .section .data.rel.ro, \"aw\", %progbits\n    .balign 8\n"
             "    .global ${table}\n${table}:\n")
    set(index 0)
    set(sources "")
    foreach(pair IN LISTS pairs)
        string(REGEX REPLACE "=.*" "" path "${pair}")
        string(REGEX REPLACE "^[^=]*=" "" file "${pair}")
        list(APPEND sources "${dir}/${file}")
        string(APPEND bytes "path_${index}:\n    .asciz \"${path}\"\n    .balign 16\n"
               "data_${index}:\n    .incbin \"${dir}/${file}\"\nend_${index}:\n    .byte 0\n")
        string(APPEND rows "    .8byte path_${index}, data_${index}, end_${index} - data_${index}\n")
        math(EXPR index "${index} + 1")
    endforeach()
    string(CONCAT text ${bytes} ${rows}
           "    .section .rodata\n    .balign 8\n    .global ${table}_count\n"
           "${table}_count:\n    .8byte ${count}\n"
           "    .section .note.GNU-stack, \"\", %progbits\n")
    file(CONFIGURE OUTPUT "${assembly}" CONTENT "${text}" @ONLY)
    set_source_files_properties("${assembly}" PROPERTIES OBJECT_DEPENDS "${sources}")
    add_library(${name} STATIC "${assembly}")
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
endfunction()

# sluice_objects(OUT file...)
#
# Sets OUT to the objects of these files of test. A file that several programs share is compiled
# once for all of them: before, four of five compilations of a build were repetitions.
function(sluice_objects out)
    set(objects "")
    foreach(file IN LISTS ARGN)
        cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
        cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/test"
                   OUTPUT_VARIABLE name)
        string(REGEX REPLACE "[/.]" "_" target "object_${name}")
        if(NOT TARGET ${target})
            add_library(${target} OBJECT "${file}")
            foreach(folder "" lib unit/core unit/http unit/api unit/pages unit/backend/redis
                    conformance/ledger simulation)
                target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/test/${folder}")
            endforeach()
            # Headers only: what an object calls is linked by the programs that take it.
            target_link_libraries(${target} PRIVATE sluice_port PkgConfig::CMOCKA PkgConfig::SODIUM
                                  PkgConfig::JANSSON PkgConfig::SQLITE PkgConfig::HIREDIS
                                  PkgConfig::MARIADB PkgConfig::RABBITMQ sluice_flags
                                  sluice_counted)
        endif()
        list(APPEND objects $<TARGET_OBJECTS:${target}>)
    endforeach()
    set(${out} ${objects} PARENT_SCOPE)
endfunction()

# sluice_tests(FOLDER dir LINK target... LABELS label... [SHARED source...])
#
# Each dir/test_*.c is one test program; the folder's other sources, and SHARED ones of other folders
# of test, are what those tests share. A test that runs longer than a quarter of an hour hangs.
# test_*_mt.c run threads: they are labelled `threaded` and run under TSan, too; a build for TSan has
# no others.
function(sluice_tests)
    cmake_parse_arguments(tests "" "FOLDER" "LINK;LABELS;SHARED" ${ARGN})
    set(dir "${CMAKE_CURRENT_SOURCE_DIR}/${tests_FOLDER}")
    file(GLOB programs CONFIGURE_DEPENDS "${dir}/test_*.c")
    file(GLOB shared CONFIGURE_DEPENDS "${dir}/*.c")
    if(programs)
        list(REMOVE_ITEM shared ${programs})
    elseif(shared)
        message(FATAL_ERROR "${dir} has sources but no test_*.c")
    endif()
    if(SLUICE_SANITIZE MATCHES "thread")
        list(FILTER programs INCLUDE REGEX "_mt\\.c$")
    endif()
    sluice_objects(objects ${shared} ${tests_SHARED})
    string(REPLACE "/" "_" prefix "${tests_FOLDER}")
    foreach(source IN LISTS programs)
        cmake_path(GET source STEM stem)
        set(target "${prefix}_${stem}")
        set(labels ${tests_LABELS})
        if(stem MATCHES "_mt$")
            list(APPEND labels threaded)
        endif()
        add_executable(${target} "${source}" ${objects})
        target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
        target_link_libraries(${target} PRIVATE test_lib ${tests_LINK} PkgConfig::CMOCKA sluice_flags
                              sluice_counted)
        add_test(NAME ${target} COMMAND ${target})
        set_tests_properties(${target} PROPERTIES TIMEOUT 900 LABELS "${labels}")
    endforeach()
endfunction()

# sluice_test_adds(TARGET [SHARED source...] [LOCK name]): more of what one test of a folder takes.
# Nothing where this build has no such test.
function(sluice_test_adds target)
    cmake_parse_arguments(adds "" "LOCK" "SHARED" ${ARGN})
    if(NOT TARGET ${target})
        return()
    endif()
    sluice_objects(objects ${adds_SHARED})
    target_sources(${target} PRIVATE ${objects})
    foreach(file IN LISTS adds_SHARED)
        cmake_path(GET file PARENT_PATH folder)
        target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
    endforeach()
    if(adds_LOCK)
        set_tests_properties(${target} PROPERTIES RESOURCE_LOCK ${adds_LOCK})
    endif()
endfunction()
