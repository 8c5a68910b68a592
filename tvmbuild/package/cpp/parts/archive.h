// The archive: package/archive.py's twin. A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "../tvmbuild.hpp"

namespace tvmbuild::detail {

constexpr size_t MAX_METADATA_BYTES = size_t{64} << 20;

// The caller, which knows the package's name, turns it into an Error.
class Damage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void damaged(const std::string &reason) { throw Damage(reason); }

inline std::optional<uint64_t> octal(const std::string &field) {
  size_t begin = field.find_first_not_of(std::string(" \0", 2)), end = field.find_last_not_of(std::string(" \0", 2));
  if (begin == std::string::npos) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = begin; i <= end; i++) {
    if (field[i] < '0' || field[i] > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(field[i] - '0');  // at most 12 digits: no overflow
  }
  return value;
}

// The library of a size that is not the largest.
inline bool is_size_library(const std::string &name) {
  const std::string begin = "size-", end = ".so";
  if (name.size() <= begin.size() + end.size() || name.size() > 96) return false;
  if (name.compare(0, begin.size(), begin) != 0 || name.compare(name.size() - end.size(), end.size(), end) != 0)
    return false;
  std::string middle = name.substr(begin.size(), name.size() - begin.size() - end.size());
  return std::all_of(middle.begin(), middle.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// A package may have files of these names alone.
inline bool is_member(const std::string &name) {
  return name == "mod.json" || name == "mod.params" || name == "mod.so" || is_size_library(name);
}

inline std::map<std::string, std::string_view> read_members(std::string_view data,
                                                            bool (*is_expected)(const std::string &)) {
  std::map<std::string, std::string_view> members;
  size_t at = 0;
  while (at + 512 <= data.size()) {
    std::string header(data.substr(at, 512));
    if (header.find_first_not_of('\0') == std::string::npos) break;
    size_t sum = 0;
    for (size_t i = 0; i < 512; i++) sum += i >= 148 && i < 156 ? ' ' : static_cast<uint8_t>(header[i]);
    std::optional<uint64_t> size = octal(header.substr(124, 12));
    if (header.substr(257, 5) != "ustar" || octal(header.substr(148, 8)) != sum || !size)
      damaged("no readable archive: a header is damaged");
    std::string name = header.substr(0, 100).c_str();
    bool prefixed = header[262] == '\0' && header[345] != '\0';
    char kind = header[156];
    if (prefixed || !is_expected(name) || members.count(name) || (kind != '0' && kind != '\0'))
      damaged("unexpected member");
    at += 512;
    if (*size > data.size() - at) damaged(name + " is cut short");
    members[name] = data.substr(at, *size);
    at += (*size + 511) / 512 * 512;
  }
  if (members.empty()) damaged("no readable archive: it begins with no file");
  if (at >= data.size()) damaged("no readable archive: it has no end");
  return members;
}

}  // namespace tvmbuild::detail
