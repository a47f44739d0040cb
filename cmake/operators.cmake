# pursuit_operators(FILE...): sources with operators, which nvcc compiles where the engine is built with CUDA.
function(pursuit_operators)
  if(PURSUIT_WITH_CUDA)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA
      COMPILE_OPTIONS "-x=cu;--extended-lambda;--expt-relaxed-constexpr;-Xcompiler=-fopenmp")
  endif()
endfunction()
