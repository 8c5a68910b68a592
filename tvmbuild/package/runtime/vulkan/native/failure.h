// Why a call failed. Nothing here throws: a function that can fail returns bool, and `fail` keeps this thread's reason.
#pragma once

namespace tvmbuild {

// Always false, so that `return fail(…)` reads as it should.
__attribute__((format(printf, 1, 2))) bool fail(const char *format, ...);

// The reason of this thread's last failure.
const char *failure();

}  // namespace tvmbuild
