// Check that this machine's CPU can run a package: package/runtime/host.py's twin for CPUs. A part of tvmbuild.cpp.
#pragma once

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "metadata.h"

namespace tvmbuild::detail {

// Like cpu_flags() of base/host_cpu.py.
inline std::set<std::string> cpu_flags(const std::string &machine) {
  const std::string key = machine == "x86_64" ? "flags" : "Features";
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    std::istringstream words(line.substr(std::min(line.find(':'), line.size() - 1) + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

// The twin of cpu_features.py: LLVM's names of instruction sets, with the kernel's where they differ.
inline const std::map<std::string, std::string> &x86_features() {
  static const std::map<std::string, std::string> features = [] {
    std::istringstream words(
        "sse3=pni ssse3 sse4.1=sse4_1 sse4.2=sse4_2 popcnt avx avx2 f16c fma bmi=bmi1 bmi2 lzcnt=abm movbe aes "
        "pclmul=pclmulqdq vaes vpclmulqdq gfni sha=sha_ni avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma "
        "avx512vbmi avx512vbmi2=avx512_vbmi2 avx512vnni=avx512_vnni avx512bitalg=avx512_bitalg "
        "avx512vpopcntdq=avx512_vpopcntdq avx512bf16=avx512_bf16 avx512fp16=avx512_fp16 "
        "avx512vp2intersect=avx512_vp2intersect avxvnni=avx_vnni avxvnniint8=avx_vnni_int8 "
        "avxvnniint16=avx_vnni_int16 avxifma=avx_ifma avxneconvert=avx_ne_convert amx-tile=amx_tile "
        "amx-int8=amx_int8 amx-bf16=amx_bf16 amx-fp16=amx_fp16 sse4a xop fma4 tbm");
    std::map<std::string, std::string> names;
    for (std::string word; words >> word;) {
      size_t equals = word.find('=');
      names[word.substr(0, equals)] = equals == std::string::npos ? word : word.substr(equals + 1);
    }
    return names;
  }();
  return features;
}

// The instruction sets that a package needs, by the kernel's names. Of older packages, which do not state them, only
// the compiler knows those of an `mcpu` that is no level of x86-64.
inline std::set<std::string> required_flags(const Attributes &cpu, const std::string &machine) {
  if (cpu.flags) return {cpu.flags->begin(), cpu.flags->end()};
  if (machine != "x86_64") return {};
  static const std::pair<const char *, const char *> levels[] = {
      {"x86-64-v2", "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"},
      {"x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe"},
      {"x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"}};
  std::set<std::string> needed;
  for (const auto &[level, features] : levels) {
    if (cpu.mcpu.compare(0, 8, "x86-64-v") != 0 || cpu.mcpu < level) break;
    std::istringstream words(features);
    for (std::string word; words >> word;) needed.insert(word);
  }
  for (const std::string &feature : cpu.features) {
    auto known = x86_features().find(feature.substr(std::min<size_t>(1, feature.size())));
    if (known == x86_features().end()) continue;  // for example a hint for the compiler
    if (feature[0] == '+') needed.insert(known->second);
    if (feature[0] == '-') needed.erase(known->second);
  }
  return needed;
}

// Like package/runtime/host.py.
inline void check_cpu(const Info &info, const Attributes &cpu) {
  struct utsname system;
  std::string here = uname(&system) == 0 ? system.machine : "", wanted = cpu.mtriple.substr(0, cpu.mtriple.find('-'));
  if (wanted == "arm64") wanted = "aarch64";
  if (!wanted.empty() && !here.empty() && wanted != here)
    throw Error("the package is built for " + wanted + " (" + info.target + "); this machine is " + here);
  const std::set<std::string> present = cpu_flags(here);
  if (present.empty()) return;
  std::string missing;
  for (const std::string &feature : required_flags(cpu, here)) {
    if (!present.count(feature)) missing += (missing.empty() ? "" : ", ") + feature;
  }
  if (!missing.empty())
    throw Error("the package is built for " + (cpu.mcpu.empty() ? info.target : cpu.mcpu) + "; this CPU has no " +
                missing);
}

}  // namespace tvmbuild::detail
