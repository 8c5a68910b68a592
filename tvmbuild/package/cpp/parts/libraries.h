// The libraries with a package's code, one for each size: the twin of Programs in package/runtime/program.py. A part of
// tvmbuild.cpp.
#pragma once

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "code.h"
#include "tvm_calls.h"

namespace tvmbuild::detail {

struct LoadedLibrary {
  Value library;
  int threads = 0;  // of one call
};

// Load the code of a library, whose loops run on the threads of the package.
inline LoadedLibrary load_library(std::string_view code, const ThreadOptions &share) {
  check_library(code);
  publish_runtime();
  LibraryFile file(code);
  const std::string name = file.path();
  Value library = invoke(find_global("ffi.ModuleLoadFromFile"), {argument_of(name.c_str())}, "mod.so cannot be loaded");
  if (use_own_pool(name, share)) return {std::move(library), share.threads};
  setenv("TVM_NUM_THREADS", std::to_string(share.threads).c_str(), 0);  // the variable counts until a pool is made
  return {std::move(library), runtime_threads()};
}

// The libraries of the sizes that are not the largest. Each is loaded when it is first used, once for all sessions that
// share them, in any thread.
class SizeLibraries {
 public:
  explicit SizeLibraries(std::map<std::string, std::string> code) : code_(std::move(code)) {}
  SizeLibraries(const SizeLibraries &) = delete;
  SizeLibraries &operator=(const SizeLibraries &) = delete;

  LoadedLibrary open(const std::string &name, const ThreadOptions &share) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = loaded_.find(name);
    if (found == loaded_.end()) {
      found = loaded_.emplace(name, load_library(code_.at(name), share)).first;
      code_.erase(name);  // it may hold embedded weights
    }
    const LoadedLibrary &loaded = found->second;
    return {Value::retain(loaded.library.object(), loaded.library.type()), loaded.threads};
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> code_;
  std::map<std::string, LoadedLibrary> loaded_;
};

}  // namespace tvmbuild::detail
