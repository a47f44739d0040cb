# `cmake --install`: the apps with their recipes, and the library for find_package(pursuit CONFIG).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# One archive of the engine, nn and data. Programs must link all of it (operators register themselves): see
# pursuitConfig.cmake.
add_library(pursuit_archive STATIC $<TARGET_OBJECTS:pursuit_engine> $<TARGET_OBJECTS:pursuit_nn>
            $<TARGET_OBJECTS:pursuit_data>)
set_target_properties(pursuit_archive PROPERTIES OUTPUT_NAME pursuit EXPORT_NAME archive LINKER_LANGUAGE CXX)
target_compile_features(pursuit_archive INTERFACE cxx_std_20)
target_include_directories(pursuit_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/pursuit>)
target_link_libraries(pursuit_archive INTERFACE OpenMP::OpenMP_CXX Threads::Threads ZLIB::ZLIB fmt::fmt
                      ${OPENBLAS} ${LAPACKE} ${SODIUM} ${SPNG} ${UTF8PROC})
if(PURSUIT_WITH_GLOO)
  target_link_libraries(pursuit_archive INTERFACE ${GLOO})
endif()
if(PURSUIT_WITH_TURBO)
  target_link_libraries(pursuit_archive INTERFACE ${JPEG})
endif()
if(PURSUIT_WITH_NCCL)
  target_link_libraries(pursuit_archive INTERFACE ${NCCL})
endif()
if(PURSUIT_WITH_CUDA)
  target_link_libraries(pursuit_archive INTERFACE CUDA::cudart CUDA::cublasLt CUDA::cusolver)
  target_compile_definitions(pursuit_archive INTERFACE PURSUIT_CUDA=1)
elseif(PURSUIT_WITH_SIMULATED_CUDA)
  target_link_libraries(pursuit_archive INTERFACE ${BOOST_CONTEXT})
  target_compile_definitions(pursuit_archive INTERFACE PURSUIT_SIMULATED=1)
endif()
if(PURSUIT_SANITIZE)
  target_compile_options(pursuit_archive INTERFACE -fsanitize=${PURSUIT_SANITIZE})
  target_link_options(pursuit_archive INTERFACE -fsanitize=${PURSUIT_SANITIZE})
endif()

# What tries operators, for those outside the tree: linked with it they are a program as `ops` is.
add_library(pursuit_ops_driver STATIC $<TARGET_OBJECTS:ops_driver> $<TARGET_OBJECTS:ops_program>
            $<TARGET_OBJECTS:pursuit_apps>)
set_target_properties(pursuit_ops_driver PROPERTIES EXPORT_NAME ops_driver)

# require_built(COMPONENT TARGET...): an error of `cmake --install` that says so where a target has not been built.
# (CMake does not wrap a line that begins with a blank.)
function(require_built component)
  foreach(target ${ARGN})
    install(CODE "
if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
  message(FATAL_ERROR \" $<TARGET_FILE:${target}> is not built yet: run cmake --build ${CMAKE_BINARY_DIR} first\")
endif()" COMPONENT ${component})
  endforeach()
endfunction()

# The component `library`: what other projects build with.
require_built(library pursuit_archive pursuit_ops_driver)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/pursuit)
configure_package_config_file(cmake/pursuitConfig.cmake.in ${CMAKE_BINARY_DIR}/pursuitConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/pursuitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS pursuit_archive pursuit_ops_driver EXPORT pursuit
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(EXPORT pursuit NAMESPACE pursuit:: FILE pursuitTargets.cmake DESTINATION ${package} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/pursuitConfig.cmake ${CMAKE_BINARY_DIR}/pursuitConfigVersion.cmake
        ${PROJECT_SOURCE_DIR}/cmake/operators.cmake DESTINATION ${package} COMPONENT library)
foreach(room engine nn data cuda)
  install(DIRECTORY ${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pursuit COMPONENT library
          FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
endforeach()

# The component `apps`: the programs and their recipes and studies.
require_built(apps ${pursuit_app_names} route pca bench)
install(TARGETS ${pursuit_app_names} route pca bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT apps)
foreach(app ${pursuit_app_names} route)
  install(DIRECTORY apps/${app}/recipes/ DESTINATION ${CMAKE_INSTALL_DATADIR}/pursuit/recipes/${app} COMPONENT apps)
  install(DIRECTORY apps/${app}/studies/ DESTINATION ${CMAKE_INSTALL_DATADIR}/pursuit/studies/${app} COMPONENT apps)
endforeach()
foreach(files recipes studies)
  install(DIRECTORY apps/segment/interactive/${files}/ COMPONENT apps
          DESTINATION ${CMAKE_INSTALL_DATADIR}/pursuit/${files}/segment/interactive)
endforeach()
