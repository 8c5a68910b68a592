// The reason of a failed call. No function throws: one that can fail returns bool, and `fail` keeps this thread's
// reason.
#pragma once

namespace tvmbuild {

// Always returns false, for `return fail(…)`.
__attribute__((format(printf, 1, 2))) bool fail(const char *format, ...);

// The reason of this thread's last failure.
const char *failure();

}  // namespace tvmbuild
