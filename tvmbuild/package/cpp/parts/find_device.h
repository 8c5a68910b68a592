// Search for a package's device on this machine, before anything could crash: package/runtime/host.py's twin for GPUs.
// A part of tvmbuild.cpp.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <regex>
#include <set>
#include <string>

#include "own_runtime.h"
#include "tvm_calls.h"
#include "vulkan_driver.h"

namespace tvmbuild::detail {

constexpr int64_t EXISTS = 0, COMPUTE_VERSION = 4, DEVICE_NAME = 5,
                  DRIVER_VERSION = 12;  // TVM's numbers of the attributes

inline Value read_attribute(DLDevice device, int64_t attribute) {
  return invoke(
      find_global("runtime.GetDeviceAttr"),
      {argument_of(int64_t{device.device_type}), argument_of(int64_t{device.device_id}), argument_of(attribute)},
      "the device does not answer");
}

// Load TVM's own runtime for CUDA; the runtime loads no backend by itself. The reason why that failed, or empty.
inline std::string load_tvm_cuda() {
  std::filesystem::path beside = find_runtime_folder() / "libtvm_runtime_cuda.so";
  const char *name = std::filesystem::exists(beside) ? beside.c_str() : "libtvm_runtime_cuda.so";
  std::string reason;
  if (dlopen(name, RTLD_NOW | RTLD_GLOBAL) == nullptr) reason = std::string(": ") + dlerror();
  return has_backend("cuda") ? "" : "the package needs TVM's cuda runtime, which is not there" + reason;
}

inline void load_cuda() {
  std::string choice = read_choice("cuda"), problem;
  if (has_backend("cuda")) {
    if (choice != "own" || has_own_runtime("cuda")) return;
    throw Error("TVMBUILD_CUDA=own, but this process has loaded TVM's CUDA runtime already");
  }
  std::string path = choice == "tvm" ? "" : find_own_library("cuda");
  if (!path.empty()) {
    problem = register_own_runtime("cuda", path);
    if (!problem.empty()) throw Error("the CUDA runtime cannot be used: " + problem);
    return;
  }
  if (choice != "own") problem = load_tvm_cuda();
  if (choice == "own" || (choice != "tvm" && !problem.empty()))
    problem = explain_missing("cuda") + (problem.empty() ? "" : "; ") + problem;
  if (!problem.empty()) throw Error(problem);
}

inline void load_vulkan() {
  std::string choice = read_choice("vulkan"), problem = explain_vulkan_driver();
  if (!has_backend("vulkan")) {
    std::string path = choice == "tvm" ? "" : find_own_library("vulkan");
    if (choice == "tvm") {
      problem = "TVMBUILD_VULKAN=tvm leaves tvmbuild's Vulkan out, and this TVM has none";
    } else if (path.empty()) {
      problem = explain_missing("vulkan") + (problem.empty() ? "" : "; " + problem);
    } else if (problem.empty()) {
      problem = register_own_runtime("vulkan", path);
    }
  }
  if (!problem.empty()) throw Error("the package runs on a Vulkan device, and this machine cannot run it: " + problem);
}

// Why tvmbuild's runtime has no device, after a colon. Empty: it is not used.
inline std::string explain_refusal(const std::string &kind) {
  if (!has_own_runtime(kind)) return "";
  Value described;
  if (TVMFFIFunctionCall(look_up(devices_function(kind)).object(), nullptr, 0, described.any()) == 0) return "";
  std::string reason = take_raised();
  size_t title = reason.find(": ");  // "CUDA: …"
  return ": " + (title == std::string::npos ? reason : reason.substr(title + 2));
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
  } else {
    load_cuda();
  }
  DLDevice device{kind == "cuda" ? kDLCUDA : kDLVulkan, 0};
  if (read_attribute(device, EXISTS).view().v_int64 == 0)
    throw Error("the package needs a " + kind + " device, and this machine has none that answers" +
                explain_refusal(kind));
  return device;
}

// The compute capabilities of Jetsons, without their points.
inline bool is_jetson(const std::string &number) {
  static const std::set<std::string> numbers{"53", "62", "72", "87", "101", "110"};
  return numbers.count(number) != 0;
}

// Whether machine code for `arch` (sm_86) runs on a card of a compute capability (8.9). It needs the same major number
// and no lower minor number; sm_90a runs only on its own, and so does code for a Jetson (sm_87) or on one.
inline bool runs_on_card(const std::string &arch, const std::string &version) {
  static const std::regex pattern("sm_([0-9]+)([0-9])([af]?)");
  std::smatch wanted;
  size_t dot = version.find('.');
  if (!std::regex_match(arch, wanted, pattern) || dot == std::string::npos) return true;  // nothing to compare
  std::string major = version.substr(0, dot), minor = version.substr(dot + 1);
  std::string code = wanted[1].str() + wanted[2].str(), card = major + minor;
  if (wanted[3] == "a" || is_jetson(code) || is_jetson(card)) return code == card;
  return wanted[1] == major && std::stoi(wanted[2]) <= std::atoi(minor.c_str());
}

// Refuse a driver that is older than the package's code needs. TVM's own runtime tells no version.
inline void check_card_driver(const std::string &wanted, const std::string &target, DLDevice device) {
  Value told = read_attribute(device, DRIVER_VERSION);
  size_t dot = wanted.find('.');
  if (dot == std::string::npos || told.type() != kTVMFFIInt) return;
  int64_t found = told.view().v_int64, major = found / 1000, minor = found % 1000 / 10;
  int64_t needed = std::atoi(wanted.c_str()) * int64_t{1000} + std::atoi(wanted.c_str() + dot + 1) * int64_t{10};
  if (found >= needed) return;
  throw Error("the package's kernels need a driver of CUDA " + wanted + " or later (" + target +
              "); this machine's is of CUDA " + std::to_string(major) + "." + std::to_string(minor));
}

// Refuse kernels that are machine code for other cards, unless the package has PTX for a later card.
inline void check_card(const Attributes &needs, const std::string &target, DLDevice device) {
  check_card_driver(needs.driver, target, device);
  const std::string &arch = needs.arch;
  std::string version = read_attribute(device, COMPUTE_VERSION).text();
  if (runs_on_card(arch, version)) return;
  std::string name = read_attribute(device, DEVICE_NAME).text(), here = "sm_" + version;
  here.erase(std::remove(here.begin(), here.end(), '.'), here.end());
  bool is_later = std::atoi(here.c_str() + 3) > std::atoi(arch.c_str() + 3);
  if (needs.has_ptx && is_later && has_own_runtime("cuda")) return;  // the driver compiles it, and keeps the result
  throw Error("the package's kernels are for " + arch + " (" + target + "); this card, " + name + ", is " + here);
}

}  // namespace tvmbuild::detail
