// The handles of the C interface. A part of libtvmbuild.so.
//
// A handle is a number, not an address, and no number is given twice. So a closed handle is found out, and a handle may
// be closed while another thread uses it: the object goes when the call returns. Handles are odd, and no address of an
// object is.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "errors.h"

namespace tvmbuild::c {

struct SessionState;
struct PackageView;

enum class Kind { SESSION, PACKAGE, TENSOR };

inline const char *name_of(Kind kind) {
  return kind == Kind::SESSION ? "a session" : kind == Kind::PACKAGE ? "a package" : "a tensor";
}

// What is behind each kind of handle.
template <typename Handle>
struct Behind;
template <>
struct Behind<tvmbuild_session> {
  using Object = SessionState;
  static constexpr Kind KIND = Kind::SESSION;
};
template <>
struct Behind<tvmbuild_package> {
  using Object = const PackageView;
  static constexpr Kind KIND = Kind::PACKAGE;
};
template <>
struct Behind<tvmbuild_tensor> {
  using Object = const Tensor;
  static constexpr Kind KIND = Kind::TENSOR;
};

class Handles {
 public:
  static Handles &all() {
    static auto *handles = new Handles;  // programs may close handles after static objects are gone
    return *handles;
  }

  template <typename Handle>
  Handle *add(std::shared_ptr<typename Behind<Handle>::Object> object) {
    std::lock_guard<std::shared_mutex> lock(mutex_);
    next_ += 2;
    auto held = std::const_pointer_cast<void>(std::static_pointer_cast<const void>(std::move(object)));
    entries_.emplace(next_, Entry{Behind<Handle>::KIND, std::move(held)});
    return reinterpret_cast<Handle *>(next_);
  }

  template <typename Handle>
  std::shared_ptr<typename Behind<Handle>::Object> find(Handle *handle, const char *name) const {
    expect(handle, name);
    std::shared_lock<std::shared_mutex> lock(mutex_);
    auto found = entries_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == entries_.end()) throw ArgumentError(std::string("`") + name + "` is closed, or was never opened");
    if (found->second.kind != Behind<Handle>::KIND)
      throw ArgumentError(std::string("`") + name + "` is the handle of " + name_of(found->second.kind) + ", not of " +
                          name_of(Behind<Handle>::KIND));
    return std::static_pointer_cast<typename Behind<Handle>::Object>(found->second.object);
  }

  void close(const void *handle) {
    std::shared_ptr<void> last;  // goes after the lock, because closing a session takes time
    std::lock_guard<std::shared_mutex> lock(mutex_);
    auto found = entries_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == entries_.end()) throw ArgumentError("the handle was closed before, or was never opened");
    last = std::move(found->second.object);
    entries_.erase(found);
  }

 private:
  struct Entry {
    Kind kind;
    std::shared_ptr<void> object;
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<uintptr_t, Entry> entries_;
  uintptr_t next_ = 1;
};

template <typename Handle>
std::shared_ptr<typename Behind<Handle>::Object> find(Handle *handle, const char *name) {
  return Handles::all().find(handle, name);
}

}  // namespace tvmbuild::c
