// Reading of arrays in .npy files, as numpy.save writes them, for the programs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tvmbuild.hpp"

namespace tvmbuild {

// The header of an .npy file: a literal of Python such as {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }.
class NpyHeader {
 public:
  NpyHeader(std::string path, std::istream &stream) : path_(std::move(path)) {
    unsigned char begin[12] = {};  // a mark, the version, and the length of the text
    auto *bytes = reinterpret_cast<char *>(begin);
    if (!stream.read(bytes, 10) || std::string(bytes, 6) != "\x93NUMPY") refuse("numpy.save writes such a file");
    if (begin[6] > 1 && !stream.read(bytes + 10, 2)) refuse("it ends in its header");
    size_t length = begin[8] | size_t{begin[9]} << 8;
    if (begin[6] > 1) length |= size_t{begin[10]} << 16 | size_t{begin[11]} << 24;
    if (length > LONGEST) refuse("its header is too long");
    text_.resize(length);
    if (!stream.read(text_.data(), static_cast<std::streamsize>(length))) refuse("it ends in its header");
  }

  // Return the name, the shape and the type of the array. Throws Error if the header is none that a package can take.
  TensorInfo read(const std::string &name) const {
    static const std::map<std::string, std::string> types = {
        {"'<f2'", "float16"}, {"'<f4'", "float32"}, {"'<f8'", "float64"}, {"'|b1'", "bool"},
        {"'|i1'", "int8"},    {"'<i2'", "int16"},   {"'<i4'", "int32"},   {"'<i8'", "int64"},
        {"'|u1'", "uint8"},   {"'<u2'", "uint16"},  {"'<u4'", "uint32"},  {"'<u8'", "uint64"},
    };
    auto type = types.find(value_of("descr", ",}"));
    if (type == types.end()) refuse("its type is none of a package: " + value_of("descr", ",}"));
    std::vector<int64_t> shape = read_shape();
    if (value_of("fortran_order", ",}") != "False" && shape.size() > 1)
      refuse("its columns lie together: save numpy.ascontiguousarray of it");
    return {name, shape, type->second, {}};
  }

 private:
  static constexpr size_t LONGEST = 1 << 16;

  [[noreturn]] void refuse(const std::string &why) const { throw Error(path_ + " cannot be read as .npy: " + why); }

  // Return the text after a key up to one of the characters.
  std::string value_of(const std::string &key, const std::string &ends) const {
    size_t at = text_.find("'" + key + "':");
    if (at == std::string::npos) refuse("its header has no " + key);
    size_t begin = text_.find_first_not_of(' ', at + key.size() + 3), end = text_.find_first_of(ends, begin);
    if (begin == std::string::npos || end == std::string::npos) refuse("its header ends in " + key);
    return text_.substr(begin, end - begin);
  }

  std::vector<int64_t> read_shape() const {
    std::string numbers = value_of("shape", ")");
    std::vector<int64_t> shape;
    size_t count = 1;
    for (size_t at = numbers.find_first_of("0123456789"); at != std::string::npos;) {
      size_t end = numbers.find_first_not_of("0123456789", at);
      shape.push_back(std::strtoll(numbers.c_str() + at, nullptr, 10));
      if (shape.back() > std::numeric_limits<int32_t>::max()) refuse("it is too large");
      count *= static_cast<size_t>(shape.back());
      if (count > LARGEST) refuse("it is too large");
      at = end == std::string::npos ? end : numbers.find_first_of("0123456789", end);
    }
    return shape;
  }

  static constexpr size_t LARGEST = size_t{1} << 32;
  std::string path_, text_;
};

// Return the array in an .npy file as a tensor with this name. Throws Error if the file cannot be read as one.
inline Tensor read_npy(const std::string &path, const std::string &name) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error(path + " cannot be read");
  Tensor tensor(NpyHeader(path, stream).read(name));
  if (!stream.read(static_cast<char *>(tensor.data()), static_cast<std::streamsize>(tensor.info().bytes())))
    throw Error(path + " cannot be read as .npy: it has fewer elements than its header says");
  return tensor;
}

}  // namespace tvmbuild
