// Search for a package's device on this machine, before anything could crash: package/runtime/host.py's twin for GPUs.
// A part of tvmbuild.cpp.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <regex>
#include <string>

#include "tvm_calls.h"
#include "vulkan_driver.h"

namespace tvmbuild::detail {

constexpr int64_t EXISTS = 0, COMPUTE_VERSION = 4, DEVICE_NAME = 5;  // TVM's numbers of the attributes
constexpr const char *VULKAN_LIBRARY = "libtvmbuild_vulkan.so";
constexpr const char *VULKAN_DEVICES = "tvmbuild_vulkan.devices";

inline Value read_attribute(DLDevice device, int64_t attribute) {
  return invoke(
      find_global("runtime.GetDeviceAttr"),
      {argument_of(int64_t{device.device_type}), argument_of(int64_t{device.device_id}), argument_of(attribute)},
      "the device does not answer");
}

inline bool has_backend(const std::string &kind) { return look_up("device_api." + kind).type() == kTVMFFIFunction; }

// The path of the loaded libtvm_runtime.so. Empty: it is part of the program.
inline std::filesystem::path find_runtime_folder() {
  void *runtime = dlopen("libtvm_runtime.so", RTLD_LAZY | RTLD_NOLOAD);
  if (runtime == nullptr) return {};
  struct link_map *loaded = nullptr;
  dlinfo(runtime, RTLD_DI_LINKMAP, static_cast<void *>(&loaded));
  std::filesystem::path path = loaded != nullptr ? loaded->l_name : "";
  dlclose(runtime);
  return path.parent_path();
}

// The runtime loads no backend by itself.
inline void load_cuda() {
  std::filesystem::path beside = find_runtime_folder() / "libtvm_runtime_cuda.so";
  const char *name = std::filesystem::exists(beside) ? beside.c_str() : "libtvm_runtime_cuda.so";
  std::string reason;
  if (dlopen(name, RTLD_NOW | RTLD_GLOBAL) == nullptr) reason = std::string(": ") + dlerror();
  if (!has_backend("cuda")) throw Error("the package needs TVM's cuda runtime, which is not there" + reason);
}

// The path of the Vulkan runtime. Empty: not found.
inline std::string find_vulkan_library() {
  const char *named = std::getenv("TVMBUILD_VULKAN_LIBRARY");
  if (named != nullptr && *named != '\0') return named;
  std::error_code ignored;
  Dl_info here = {};
  dladdr(reinterpret_cast<void *>(&find_vulkan_library), &here);  // the library that contains this code, or the program
  for (const std::filesystem::path &folder :
       {std::filesystem::path(here.dli_fname != nullptr ? here.dli_fname : "").parent_path(),
        std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path(), find_runtime_folder()}) {
    if (!folder.empty() && std::filesystem::exists(folder / VULKAN_LIBRARY, ignored)) return folder / VULKAN_LIBRARY;
  }
  return "";
}

inline std::string register_vulkan(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  auto start = reinterpret_cast<int (*)()>(dlsym(library, "tvmbuild_vulkan_register"));
  if (start == nullptr) return path + " has no tvmbuild_vulkan_register";
  auto explain = reinterpret_cast<const char *(*)()>(dlsym(library, "tvmbuild_vulkan_failure"));
  if (start() != 0) return explain != nullptr ? explain() : take_raised();
  return has_backend("vulkan") ? "" : path + " registered no Vulkan runtime";
}

inline void load_vulkan() {
  std::string problem = explain_vulkan_driver();
  if (!has_backend("vulkan")) {
    std::string path = find_vulkan_library();
    if (path.empty()) {
      problem = std::string("there is no ") + VULKAN_LIBRARY +
                " beside the program or libtvm_runtime.so, and TVMBUILD_VULKAN_LIBRARY names none" +
                (problem.empty() ? "" : "; " + problem);
    } else if (problem.empty()) {
      problem = register_vulkan(path);
    }
  }
  if (!problem.empty()) throw Error("the package runs on a Vulkan device, and this machine cannot run it: " + problem);
}

// This machine's first device of a target kind.
inline DLDevice find_device(const std::string &kind) {
  if (kind == "llvm") return {kDLCPU, 0};
  if (kind != "cuda" && kind != "vulkan")
    throw Error("the package needs TVM's " + kind + " runtime, which is not there");
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  if (kind == "vulkan") {
    load_vulkan();
  } else if (!has_backend(kind)) {
    load_cuda();
  }
  DLDevice device{kind == "cuda" ? kDLCUDA : kDLVulkan, 0};
  if (read_attribute(device, EXISTS).view().v_int64 == 0) {
    std::string problem = "the package needs a " + kind + " device, and this machine has none that answers";
    if (kind == "vulkan" && look_up(VULKAN_DEVICES).type() == kTVMFFIFunction)
      invoke(find_global(VULKAN_DEVICES), {}, problem);  // throws with the reason
    throw Error(problem);
  }
  return device;
}

// Whether machine code for `arch` (sm_86) runs on a card of a compute capability (8.9). It needs the same major number
// and no lower minor number; sm_90a runs only on its own.
inline bool runs_on_card(const std::string &arch, const std::string &version) {
  static const std::regex pattern("sm_([0-9]+)([0-9])([af]?)");
  std::smatch wanted;
  size_t dot = version.find('.');
  if (!std::regex_match(arch, wanted, pattern) || dot == std::string::npos) return true;  // nothing to compare
  std::string minor = version.substr(dot + 1);
  bool same = wanted[1] == version.substr(0, dot) && std::stoi(wanted[2]) <= std::atoi(minor.c_str());
  return same && (wanted[3] != "a" || wanted[2] == minor);
}

// Refuse kernels that are machine code for other cards.
inline void check_card(const std::string &arch, const std::string &target, DLDevice device) {
  std::string version = read_attribute(device, COMPUTE_VERSION).text();
  if (runs_on_card(arch, version)) return;
  std::string name = read_attribute(device, DEVICE_NAME).text(), here = "sm_" + version;
  here.erase(std::remove(here.begin(), here.end(), '.'), here.end());
  throw Error("the package's kernels are for " + arch + " (" + target + "); this card, " + name + ", is " + here);
}

}  // namespace tvmbuild::detail
