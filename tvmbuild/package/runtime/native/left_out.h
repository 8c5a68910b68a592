// Features of a device that an environment variable leaves out although they exist, to find a driver's fault.
#pragma once
#include <stddef.h>

namespace tvmbuild {

// Whether the variable, a list of words with commas between, has the word.
bool is_left_out(const char *variable, const char *word);

// Whether the variable has only words of these. False with the failure set.
bool check_left_out(const char *variable, const char *const *words, size_t count);

}  // namespace tvmbuild
