// Loading of mod.so, its threads and its weights. A part of tvmbuild.cpp.
#pragma once

#include <dlfcn.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cores.h"
#include "tvm_calls.h"

namespace tvmbuild::detail {

// The loader trusts the header, and a file that is too short crashes: package/runtime/elf_header.py.
inline void check_library(std::string_view data) {
  auto number = [&](size_t at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | static_cast<uint8_t>(data[at + i]);
    return value;
  };
  static const std::string magic =
      "\x7f"
      "ELF\x02\x01";  // 64 bits, little-endian
  if (data.size() < 64 || data.compare(0, magic.size(), magic) != 0) throw Error("mod.so is no 64-bit ELF file");
  uint64_t begin = number(32, 8), size = number(54, 2), count = number(56, 2);
  if (number(16, 2) != 3 || size != 56) throw Error("mod.so is not a shared library");
  if (begin > data.size() || count * size > data.size() - begin) throw Error("mod.so is cut short");
  for (uint64_t i = 0; i < count; i++) {
    uint64_t offset = number(begin + i * size + 8, 8), bytes = number(begin + i * size + 32, 8);
    if (offset > data.size() || bytes > data.size() - offset) throw Error("mod.so is cut short");
  }
}

// A separate file for the library while it is loaded, because the loader identifies libraries by their files.
class LibraryFile {
 public:
  explicit LibraryFile(std::string_view content) {
    const char *parent = std::getenv("TMPDIR");
    folder_ = std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/tvmbuild-XXXXXX";
    if (mkdtemp(folder_.data()) == nullptr) throw Error("no temporary folder: set TMPDIR to one that can be written");
    struct statvfs disk;
    if (statvfs(folder_.c_str(), &disk) == 0 && (disk.f_flag & ST_NOEXEC) != 0) {
      remove();
      throw Error(folder_ + " is mounted noexec: no library can be loaded from there; set TMPDIR to another folder");
    }
    std::ofstream stream(path(), std::ios::binary);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    stream.close();
    if (!stream) {
      remove();
      throw Error(path() + " cannot be written: make room on its disk, or set TMPDIR to a folder of another one");
    }
  }
  ~LibraryFile() { remove(); }
  LibraryFile(const LibraryFile &) = delete;
  LibraryFile &operator=(const LibraryFile &) = delete;
  std::string path() const { return folder_ + "/mod.so"; }

 private:
  void remove() const {
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }
  std::string folder_;
};

// Let the code of packages find the runtime's functions, even if a plugin or ctypes loaded the runtime for itself
// alone.
inline void publish_runtime() {
  for (const char *name : {"libtvm_ffi.so", "libtvm_runtime.so"}) {
    void *loaded = dlopen(name, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    if (loaded != nullptr) dlclose(loaded);  // null: it is part of the program
  }
}

inline int runtime_threads() {
  return static_cast<int>(invoke(find_global("runtime.NumThreads"), {}, "threads").view().v_int64);
}

// An open library of the process.
struct Opened {
  explicit Opened(void *opened) : handle(opened) {}
  ~Opened() {
    if (handle != nullptr) dlclose(handle);
  }
  Opened(const Opened &) = delete;
  Opened &operator=(const Opened &) = delete;
  void *find(const char *name) const { return dlsym(handle, name); }
  void *handle;
};

// Join the threads that packages share: package/runtime/thread_pool.py.
inline bool join_pool(const Opened &library, const ThreadOptions &wish) {
  Opened shared(dlopen("libtvmbuild-pool.so.1", RTLD_NOW | RTLD_NOLOAD));  // the first package with the pool
  const Opened &host = shared.handle != nullptr ? shared : library;
  std::vector<int> cores = wish.cores.empty() ? usable_cores() : wish.cores;
  uint64_t mask[16] = {};
  for (int core : cores) {
    if (core < 1024) mask[core / 64] |= uint64_t{1} << core % 64;
  }
  int limit = wish.cores.empty() ? std::max(available_cores(), wish.threads) : static_cast<int>(cores.size());
  auto join = reinterpret_cast<void *(*)(const uint64_t *, int, int, int)>(host.find("tvmbuild_pool_join"));
  void *run = host.find("tvmbuild_pool_run");
  void *team = join(mask, wish.cores.empty() ? 0 : 1, limit, wish.threads);
  if (team == nullptr) return false;
  auto use =
      reinterpret_cast<void (*)(void *, int, int, void *, int (*)(void *), void *)>(library.find("tvmbuild_pool_use"));
  bool is_guest = run != library.find("tvmbuild_pool_run");
  use(team, wish.threads, wish.priority, run, is_guest ? &dlclose : nullptr, is_guest ? shared.handle : nullptr);
  if (is_guest) shared.handle = nullptr;  // the guest closes it
  return true;
}

inline bool use_own_pool(const std::string &path, const ThreadOptions &wish) {
  const char *wanted = std::getenv("TVMBUILD_THREAD_POOL");
  bool has_pool = false;
  if (wanted == nullptr || std::strcmp(wanted, "tvm") != 0) {
    Opened library(dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD));  // the runtime holds it, too
    auto slot = static_cast<void **>(library.find("__TVMBackendParallelLaunch"));
    auto start = reinterpret_cast<int (*)(int)>(library.find("tvmbuild_pool_start"));
    void *launch = library.find("tvmbuild_pool_launch");
    if (library.handle == nullptr || launch == nullptr) {
      has_pool = false;
    } else if (slot == nullptr) {
      has_pool = true;  // it has no parallel loop
    } else if (library.find("tvmbuild_pool_join") != nullptr) {
      has_pool = join_pool(library, wish);
    } else {
      has_pool = wish.cores.empty() && start(wish.threads) == 0;  // of an older tvmbuild
    }
    if (has_pool && slot != nullptr) *slot = launch;
  }
  if (!has_pool && !wish.cores.empty()) throw Error("this package's threads cannot be bound to cores: build it again");
  return has_pool;
}

}  // namespace tvmbuild::detail
