#pragma once

// AMX, the matrix tiles of some processors, for products of bf16 and int8 numbers.
namespace pursuit {

// Whether the CPU has AMX's tiles of bf16 and int8 numbers and the system lets this process use them.
bool amx_supported();

// Whether products use them: where they are supported and PURSUIT_ISA is unset or "amx".
bool amx_chosen();

}  // namespace pursuit
