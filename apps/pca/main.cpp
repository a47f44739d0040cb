#include "apps/pca/commands.h"
#include "engine/program/program.h"

int main(int argc, char** argv) { return pursuit::run_main(argc, argv, pursuit::pca::run); }
