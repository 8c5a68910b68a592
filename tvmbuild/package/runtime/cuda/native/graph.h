// CUDA graphs for TVM's virtual machine: the first call of a part of the model is captured, later ones are one launch.
#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// Find the functions of TVM that are needed. False with the failure set.
bool prepare_graphs();

// vm.builtin.cuda_graph.get_cached_alloc(machine, function, index): the memory that the graph keeps.
int give_kept_memory(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

// vm.builtin.cuda_graph.run_or_capture(machine, function, arguments, index[, shape]).
int run_or_capture(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

}  // namespace tvmbuild
