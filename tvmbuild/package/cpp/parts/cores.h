// The cores and threads of a session: base/cores.py's and package/runtime/thread_pool.py's twin. A part of
// tvmbuild.cpp.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "metadata.h"

namespace tvmbuild::detail {

inline std::string read_text(const std::string &path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline std::optional<uint64_t> natural(const std::string &text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoull(text);
}

inline std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

inline bool has_cpu(const std::string &controllers) {
  std::vector<std::string> names = split(controllers, ',');
  return std::find(names.begin(), names.end(), "cpu") != names.end();
}

// The quota of a control group in cores.
inline std::optional<double> read_quota(const std::string &group) {
  std::string limit, period;
  std::istringstream second(read_text(group + "/cpu.max"));
  if (!(second >> limit >> period)) {
    std::istringstream(read_text(group + "/cpu.cfs_quota_us")) >> limit;
    std::istringstream(read_text(group + "/cpu.cfs_period_us")) >> period;
  }
  std::optional<uint64_t> time = natural(limit), of = natural(period);  // not max, nor -1
  if (!time || !of || *of == 0) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*of);
}

// The least quota of this process's control groups and their ancestors, in cores.
inline std::optional<double> find_quota() {
  std::map<int, std::string> inside;  // version → path
  for (const std::string &line : split(read_text("/proc/self/cgroup"), '\n')) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty() && line.substr(0, first) == "0") inside[2] = line.substr(second + 1);
    if (has_cpu(controllers)) inside[1] = line.substr(second + 1);
  }
  std::optional<double> least;
  for (const std::string &line : split(read_text("/proc/self/mountinfo"), '\n')) {
    size_t middle = line.find(" - ");
    if (middle == std::string::npos) continue;
    std::istringstream before(line.substr(0, middle)), after(line.substr(middle + 3));
    std::string skipped, mounted, place, kind, source, options;
    before >> skipped >> skipped >> skipped >> mounted >> place;
    after >> kind >> source >> options;
    int version = kind == "cgroup2" ? 2 : kind == "cgroup" && has_cpu(options) ? 1 : 0;
    auto found = inside.find(version);
    if (found == inside.end()) continue;
    std::string below = found->second;
    if (mounted != "/") {  // a container's own group is the root of its mount
      bool within = (below + "/").compare(0, mounted.size() + 1, mounted + "/") == 0;
      below = within ? below.substr(mounted.size()) : "";
    }
    for (;;) {
      std::optional<double> quota = read_quota(place + below);
      if (quota && (!least || *quota < *least)) least = quota;
      size_t slash = below.rfind('/');
      if (slash == std::string::npos) break;
      below.resize(slash);
    }
  }
  return least;
}

inline std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

inline int available_cores() {
  int cores = std::max<int>(1, static_cast<int>(usable_cores().size()));
  std::optional<double> quota = find_quota();
  return quota ? std::clamp(static_cast<int>(std::min(*quota, 1e6)), 1, cores) : cores;
}

inline cpu_set_t set_of(const std::vector<int> &cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(core, &set);
  return set;
}

// Check that the cores may be used and that threads may be bound to them.
inline void check_cores(const std::vector<int> &cores) {
  std::vector<int> usable = usable_cores();
  for (int core : cores) {
    if (std::find(usable.begin(), usable.end(), core) == usable.end())
      throw Error("the core " + std::to_string(core) + " was asked for, and this process may not use it");
  }
  cpu_set_t wanted = set_of(cores), before = set_of(usable);
  if (sched_setaffinity(0, sizeof(wanted), &wanted) != 0)
    throw Error(std::string("threads cannot be bound to cores: ") + std::strerror(errno));
  sched_setaffinity(0, sizeof(before), &before);
}

// While this exists, the calling thread runs on these cores; if there are none, it stays where it is.
class OnCores {
 public:
  explicit OnCores(const std::vector<int> &cores) : bound_(!cores.empty()) {
    if (!bound_) return;
    cpu_set_t wanted = set_of(cores);
    bound_ = sched_getaffinity(0, sizeof(before_), &before_) == 0 && sched_setaffinity(0, sizeof(wanted), &wanted) == 0;
  }
  ~OnCores() {
    if (bound_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  OnCores(const OnCores &) = delete;
  OnCores &operator=(const OnCores &) = delete;

 private:
  bool bound_;
  cpu_set_t before_;
};

inline int choose_threads(const Info &info, const ThreadOptions &wish) {
  int cores = available_cores(), threads = wish.threads;
  if (!wish.cores.empty()) cores = std::min<int>(cores, static_cast<int>(wish.cores.size()));
  std::string who = std::to_string(threads) + " threads were asked for";
  if (threads == 0) {
    const char *named = std::getenv("TVM_NUM_THREADS");
    if (named == nullptr) return std::min(info.cores, cores);
    std::optional<uint64_t> number = natural(named);
    if (!number) throw Error(std::string("TVM_NUM_THREADS is '") + named + "', not a number");
    threads = static_cast<int>(std::min<uint64_t>(*number, 1 << 20));
    who = "TVM_NUM_THREADS asks for " + std::string(named) + " threads";
  }
  if (threads < 1 || threads > cores)
    throw Error(who + ", and this process may use " + std::to_string(cores) + (cores == 1 ? " core" : " cores"));
  return threads;
}

}  // namespace tvmbuild::detail
