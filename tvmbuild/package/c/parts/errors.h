// Errors of the C interface, and structs that have a size. A part of libtvmbuild.so.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "../../cpp/tvmbuild.hpp"
#include "../tvmbuild.h"

namespace tvmbuild::c {

// The error for an argument that no package could make right.
class ArgumentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline std::string &last_error() {
  thread_local std::string message;
  return message;
}

inline tvmbuild_status fail(tvmbuild_status status, const char *message) noexcept {
  try {
    last_error() = message;
  } catch (const std::exception &) {
    last_error().clear();
  }
  return status;
}

// Run a function of the interface. `status` is that of a tvmbuild::Error.
template <typename Work>
tvmbuild_status guard(tvmbuild_status status, Work work) noexcept {
  try {
    work();
    return TVMBUILD_OK;
  } catch (const ArgumentError &error) {
    return fail(TVMBUILD_ARGUMENT, error.what());
  } catch (const Cancelled &error) {
    return fail(TVMBUILD_CANCELLED, error.what());
  } catch (const Error &error) {
    return fail(status, error.what());
  } catch (const std::bad_alloc &) {
    return fail(TVMBUILD_MEMORY, "there is too little memory");
  } catch (const std::exception &error) {
    return fail(TVMBUILD_INTERNAL, error.what());
  } catch (...) {
    return fail(TVMBUILD_INTERNAL, "something was thrown that is not a std::exception");
  }
}

inline void expect(const void *pointer, const char *name) {
  if (pointer == nullptr) throw ArgumentError(std::string("`") + name + "` is null");
}

inline void expect_place(size_t at, size_t count, const char *things) {
  if (at >= count)
    throw ArgumentError("there are " + std::to_string(count) + " " + things + ", and number " + std::to_string(at) +
                        " was asked for, counted from 0");
}

// The size of a struct in its first version, which every caller's has at least. Later fields are 0 if they are missing.
template <typename Sized>
constexpr size_t FIRST_SIZE = sizeof(Sized);
template <>
inline constexpr size_t FIRST_SIZE<tvmbuild_frame_options> = offsetof(tvmbuild_frame_options, newest);
template <>
inline constexpr size_t FIRST_SIZE<tvmbuild_result_info> = offsetof(tvmbuild_result_info, outputs);

template <typename Sized>
void expect_size(const Sized *given, const char *name) {
  static_assert(std::is_trivially_copyable_v<Sized>);
  expect(given, name);
  if (given->size < FIRST_SIZE<Sized>)
    throw ArgumentError(std::string("`") + name + "->size` is " + std::to_string(given->size) +
                        ", and the struct has " + std::to_string(sizeof(Sized)) +
                        " bytes: set it to sizeof of the struct");
}

// Write the fields that the caller knows. Those of a later version become 0.
template <typename Sized>
void write(Sized *to, Sized from) {
  from.size = to->size;
  std::memset(static_cast<void *>(to), 0, to->size);
  std::memcpy(static_cast<void *>(to), &from, std::min(sizeof(Sized), from.size));
}

// Return options that may be null. A field of a later version must be 0.
template <typename Sized>
Sized read(const Sized *given, const char *name) {
  Sized known = {};
  if (given == nullptr) return known;
  expect_size(given, name);
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  const size_t shared = std::min(sizeof(Sized), given->size);
  if (std::any_of(bytes + shared, bytes + given->size, [](unsigned char byte) { return byte != 0; }))
    throw ArgumentError(std::string("`") + name + "` has a field that this version of libtvmbuild does not know");
  std::memcpy(static_cast<void *>(&known), given, shared);
  return known;
}

}  // namespace tvmbuild::c
