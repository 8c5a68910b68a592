// Search for tvmbuild's own device runtimes, libtvmbuild_cuda.so and libtvmbuild_vulkan.so, and their registration with
// TVM: package/runtime/native_library.py's twin. A part of tvmbuild.cpp.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tvm_calls.h"

namespace tvmbuild::detail {

inline bool has_backend(const std::string &kind) { return look_up("device_api." + kind).type() == kTVMFFIFunction; }

// The function that only tvmbuild's runtime for the kind registers.
inline std::string devices_function(const std::string &kind) { return "tvmbuild_" + kind + ".devices"; }

inline bool has_own_runtime(const std::string &kind) {
  return look_up(devices_function(kind)).type() == kTVMFFIFunction;
}

// The environment variable that chooses a kind's runtime; with "_LIBRARY" after it, the one that names the library.
inline std::string variable_of(const std::string &kind) {
  std::string name = "TVMBUILD_" + kind;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char each) { return std::toupper(each); });
  return name;
}

inline std::string read_variable(const std::string &name) {
  const char *value = std::getenv(name.c_str());
  return value != nullptr ? value : "";
}

// `own` for tvmbuild's runtime, `tvm` for TVM's; empty: the environment chooses none of them.
inline std::string read_choice(const std::string &kind) {
  std::string choice = read_variable(variable_of(kind));
  if (choice.empty() || choice == "own" || choice == "tvm") return choice;
  throw Error(variable_of(kind) + "=" + choice + " chooses no runtime: write own or tvm, or unset it");
}

// The folder of the loaded libtvm_runtime.so. Empty: it is part of the program.
inline std::filesystem::path find_runtime_folder() {
  void *runtime = dlopen("libtvm_runtime.so", RTLD_LAZY | RTLD_NOLOAD);
  if (runtime == nullptr) return {};
  struct link_map *loaded = nullptr;
  dlinfo(runtime, RTLD_DI_LINKMAP, static_cast<void *>(&loaded));
  std::filesystem::path path = loaded != nullptr ? loaded->l_name : "";
  dlclose(runtime);
  return path.parent_path();
}

inline std::string own_library(const std::string &kind) { return "libtvmbuild_" + kind + ".so"; }

// The path of the kind's runtime. Empty: not found.
inline std::string find_own_library(const std::string &kind) {
  std::string named = read_variable(variable_of(kind) + "_LIBRARY");
  if (!named.empty()) return named;
  std::error_code ignored;
  Dl_info here = {};
  dladdr(reinterpret_cast<void *>(&find_own_library), &here);  // the library that contains this code, or the program
  for (const std::filesystem::path &folder :
       {std::filesystem::path(here.dli_fname != nullptr ? here.dli_fname : "").parent_path(),
        std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path(), find_runtime_folder()}) {
    if (!folder.empty() && std::filesystem::exists(folder / own_library(kind), ignored))
      return folder / own_library(kind);
  }
  return "";
}

inline std::string explain_missing(const std::string &kind) {
  return "there is no " + own_library(kind) + " beside the program or libtvm_runtime.so, and " + variable_of(kind) +
         "_LIBRARY names none";
}

// Load the runtime and let it register the kind. The reason why that failed; empty: it is done.
inline std::string register_own_runtime(const std::string &kind, const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  std::string prefix = "tvmbuild_" + kind;
  auto start = reinterpret_cast<int (*)()>(dlsym(library, (prefix + "_register").c_str()));
  if (start == nullptr) return path + " has no " + prefix + "_register";
  auto explain = reinterpret_cast<const char *(*)()>(dlsym(library, (prefix + "_failure").c_str()));
  if (start() != 0) return explain != nullptr ? explain() : take_raised();
  return has_backend(kind) ? "" : path + " registered no runtime for " + kind;
}

}  // namespace tvmbuild::detail
