# `cmake --build build --target api`: pages of the public declarations in build/api/html, by Doxygen.
find_program(DOXYGEN doxygen)
if(DOXYGEN)
  configure_file(tools/api/Doxyfile.in ${CMAKE_BINARY_DIR}/Doxyfile @ONLY)
  add_custom_target(api
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/api
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/api
    COMMAND ${DOXYGEN} ${CMAKE_BINARY_DIR}/Doxyfile
    COMMAND python3 ${PROJECT_SOURCE_DIR}/tools/api/check.py ${CMAKE_BINARY_DIR}/api/xml
            ${PROJECT_SOURCE_DIR}/tools/api/groups.dox
    VERBATIM)
endif()
