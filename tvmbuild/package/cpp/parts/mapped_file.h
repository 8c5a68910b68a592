// A file in memory without a copy: package/mapped_file.py's twin. A part of tvmbuild.cpp.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "../tvmbuild.hpp"

namespace tvmbuild::detail {

constexpr uint64_t MAX_BYTES = uint64_t{4} << 30;

class MappedFile {
 public:
  using Identity = std::tuple<dev_t, ino_t, off_t, time_t, long>;

  // Map a file, or return the mapping that this process has.
  static std::shared_ptr<MappedFile> open(const std::string &path) {
    struct stat status;  // first, because opening a pipe would wait for a writer
    if (stat(path.c_str(), &status) != 0) throw Error(path + " cannot be read: " + std::strerror(errno));
    if (!S_ISREG(status.st_mode))
      throw Error(path + " cannot be read: " + std::strerror(S_ISDIR(status.st_mode) ? EISDIR : EOPNOTSUPP));
    if (static_cast<uint64_t>(status.st_size) > MAX_BYTES)
      throw Error(path + " is not a package: it is larger than 4 GiB");
    int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw Error(path + " cannot be read: " + std::strerror(errno));
    std::shared_ptr<MappedFile> file(new MappedFile(path, descriptor));
    static std::mutex mutex;
    static std::map<Identity, std::weak_ptr<MappedFile>> mapped;
    std::lock_guard<std::mutex> turn(mutex);
    for (auto each = mapped.begin(); each != mapped.end();) each = each->second.expired() ? mapped.erase(each) : ++each;
    std::shared_ptr<MappedFile> found = mapped[file->identity_].lock();
    if (found) return found;
    file->map();
    mapped[file->identity_] = file;
    return file;
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(data_, size_);
    close(descriptor_);
  }
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  std::string_view data() const { return {static_cast<const char *>(data_), size_}; }

  void check() const {
    if (identify() != identity_)
      throw Error(path_ + " was overwritten while a session used it: load it again, and replace packages by mv");
  }

 private:
  MappedFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor), identity_(identify()) {}
  Identity identify() const {
    struct stat status = {};
    fstat(descriptor_, &status);
    return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  }
  void map() {
    auto size = static_cast<size_t>(std::get<2>(identity_));
    if (size == 0) return;
    // What is written there stays in this process.
    void *data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor_, 0);
    if (data == MAP_FAILED) throw Error(path_ + " cannot be mapped: " + std::strerror(errno));
    data_ = data;
    size_ = size;
  }
  std::string path_;
  int descriptor_;
  Identity identity_;
  void *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tvmbuild::detail
