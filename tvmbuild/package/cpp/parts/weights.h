// The weights of a package, in the mapped file if they can be used there: package/weights.py and
// package/runtime/weights.py. A part of tvmbuild.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device.h"
#include "mapped_file.h"
#include "tvm_calls.h"

namespace tvmbuild::detail {

// Read numbers from bytes that may be damaged.
class WeightReader {
 public:
  explicit WeightReader(std::string_view data) : data_(data) {}
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string_view bytes(uint64_t count) {
    if (count > data_.size() - at_) throw Error("mod.params cannot be read: it is cut short");
    std::string_view found = data_.substr(at_, count);
    at_ += count;
    return found;
  }

 private:
  std::string_view data_;
  size_t at_ = 0;
};

struct Weight {
  TensorInfo info;
  std::string_view data;
};

inline std::optional<std::string> name_dtype(uint8_t kind, uint8_t bits, uint16_t lanes) {
  static const std::map<uint8_t, std::string> kinds = {{0, "int"}, {1, "uint"}, {2, "float"}, {4, "bfloat"}};
  if (lanes != 1 || bits % 8 != 0) return std::nullopt;
  if (kind == 6 && bits == 8) return "bool";
  auto found = kinds.find(kind);
  return found == kinds.end() ? std::nullopt : std::optional(found->second + std::to_string(bits));
}

inline Weight read_weight(WeightReader &reader, std::string_view name) {
  auto damaged = [] { throw Error("mod.params cannot be read: a tensor's header is damaged"); };
  if (reader.number<uint64_t>() != 0xdd5e40f096b4a13f) damaged();
  reader.bytes(16);  // reserved, and the device
  auto axes = reader.number<int32_t>();
  auto kind = reader.number<uint8_t>(), bits = reader.number<uint8_t>();
  auto lanes = reader.number<uint16_t>();
  std::optional<std::string> dtype = name_dtype(kind, bits, lanes);
  uint64_t count = 1;
  Weight weight;
  for (int32_t axis = 0; axis < axes; axis++) {
    auto extent = reader.number<int64_t>();
    if (extent < 0 || extent > static_cast<int64_t>(MAX_BYTES)) damaged();
    count = extent != 0 && count > MAX_BYTES / static_cast<uint64_t>(extent) ? MAX_BYTES + 1 : count * extent;
    if (count > MAX_BYTES) damaged();
    weight.info.shape.push_back(extent);
  }
  auto size = reader.number<uint64_t>();
  if (axes < 0 || size != count * ((bits * lanes + 7) / 8)) damaged();
  weight.data = reader.bytes(size);
  weight.info.name = std::string(name);
  weight.info.dtype = dtype.value_or("");
  return weight;
}

// By name, without those that only fill gaps.
inline std::map<std::string, Weight> read_weights(std::string_view data) {
  WeightReader reader(data);
  if (reader.number<uint64_t>() != 0xf7e58d4f05049cb7)
    throw Error("mod.params cannot be read: it is not a file of weights");
  reader.bytes(8);
  std::vector<std::string_view> names;
  auto count = reader.number<uint64_t>();
  for (uint64_t i = 0; i < count; i++) names.push_back(reader.bytes(reader.number<uint64_t>()));
  if (reader.number<uint64_t>() != count) throw Error("mod.params cannot be read: its lists do not agree");
  std::map<std::string, Weight> weights;
  for (std::string_view name : names) {
    Weight weight = read_weight(reader, name);
    if (name.substr(0, 1) != "~") weights[weight.info.name] = std::move(weight);
  }
  return weights;
}

// Return the weights, sorted by name, or those at `places` of them. Those at a multiple of ALIGNMENT stay in the file,
// which they keep; packages of older tvmbuilds have some at other places.
inline std::vector<Value> load_weights(std::string_view data, const std::shared_ptr<MappedFile> &file,
                                       const std::optional<std::vector<size_t>> &places = std::nullopt) {
  std::map<std::string, Weight> named = read_weights(data);
  std::vector<const Weight *> all, wanted;
  for (const auto &[name, weight] : named) all.push_back(&weight);
  for (size_t place : places.value_or(std::vector<size_t>())) {
    if (place >= all.size()) throw Error("mod.params lacks weights of the package");
    wanted.push_back(all[place]);
  }
  std::vector<Value> values;
  for (const Weight *each : places ? wanted : all) {
    const Weight &weight = *each;
    const std::string &name = weight.info.name;
    if (weight.info.dtype.empty()) throw Error("mod.params has a tensor of a type that this library cannot read");
    auto *place = const_cast<char *>(weight.data.data());
    std::shared_ptr<void> memory(file, place);
    if (reinterpret_cast<uintptr_t>(place) % ALIGNMENT != 0) {
      memory = allocate_aligned(weight.data.size(), name);
      std::memcpy(memory.get(), weight.data.data(), weight.data.size());
    }
    values.push_back(share(weight.info, memory));
  }
  return values;
}

}  // namespace tvmbuild::detail
