# Writes OUT, a source file with the commit of the sources in SOURCE, if it differs from what OUT holds:
#   cmake -DSOURCE=DIR -DOUT=FILE -P commit.cmake
# "-dirty" behind it: files differ from the commit. "unknown" without git, or where SOURCE is not the top of a
# repository, a tarball unpacked in another one for example.
cmake_minimum_required(VERSION 3.25)
set(commit unknown)
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH ${SOURCE} real)
  if(top STREQUAL real)
    execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                    OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE code)
    if(code EQUAL 0)
      set(commit ${described})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY
     CONTENT "#include \"apps/training/provenance.h\"\n\nconst char* const pursuit::apps::build_commit = \"${commit}\";\n")
