// The sizes of a package whose shapes vary: package/size_functions.py's and package/padding.py's twin. A part of
// tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../tvmbuild.hpp"
#include "archive.h"
#include "batch.h"
#include "metadata.h"

namespace tvmbuild::detail {

inline std::map<std::string, std::vector<Axis>> read_axes(const Part &part, const std::vector<TensorInfo> &tensors) {
  std::map<std::string, std::vector<Axis>> shapes;
  for (const std::string &name : part.keys()) {
    std::vector<Axis> &shape = shapes[name];
    for (const Part &each : part[name].list())
      shape.push_back(each.is_text() ? Axis{0, each.text()} : Axis{static_cast<int64_t>(each.natural()), ""});
    auto has_name = [&](const TensorInfo &info) { return info.name == name && info.shape.size() == shape.size(); };
    part[name].expect(std::any_of(tensors.begin(), tensors.end(), has_name), "shape of one of the package's tensors");
  }
  return shapes;
}

inline std::vector<int64_t> fill_shape(const std::vector<Axis> &shape, const std::map<std::string, int64_t> &values) {
  std::vector<int64_t> filled;
  filled.reserve(shape.size());
  for (const Axis &axis : shape) filled.push_back(axis.letter.empty() ? axis.length : values.at(axis.letter));
  return filled;
}

inline std::set<std::string> find_letters(const std::map<std::string, std::vector<Axis>> &shapes) {
  std::set<std::string> letters;
  for (const auto &named : shapes) {
    for (const Axis &axis : named.second) {
      if (!axis.letter.empty()) letters.insert(axis.letter);
    }
  }
  return letters;
}

// Expect that a function's values are those of the letters of the inputs, and that its tensors have such lengths.
inline void check_values(const Part &part, const Info &info, const Sizes &sizes, const SizeFunction &function) {
  std::set<std::string> letters;
  for (const auto &value : function.values) letters.insert(value.first);
  part["functions"].expect(letters == find_letters(sizes.inputs), "list of values for each letter of the inputs");
  for (const std::string &letter : find_letters(sizes.outputs))
    part["outputs"].expect(letters.count(letter), "map of shapes whose letters all have values");
  for (const TensorInfo &input : info.inputs) {
    auto found = sizes.inputs.find(input.name);
    if (found == sizes.inputs.end()) continue;
    auto bytes = static_cast<double>(dtype_sizes().at(input.dtype));
    for (int64_t length : fill_shape(found->second, function.values)) bytes *= static_cast<double>(length);
    part["functions"].expect(bytes <= static_cast<double>(MAX_TENSOR_BYTES), "list of sizes that fit a memory");
  }
  for (size_t i = 0; i < info.outputs.size(); i++) {
    const std::vector<Axis> &axes = sizes.outputs.at(info.outputs[i].name);
    for (size_t axis = 0; axis < axes.size(); axis++) {
      bool fits = axes[axis].letter.empty() || function.values.at(axes[axis].letter) <= function.outputs[i][axis];
      part["functions"].expect(fits, "list of outputs as long as their letters say");
    }
  }
}

inline Range read_range(const Part &part, const Sizes &sizes) {
  Range range{part["letter"].text(), static_cast<int64_t>(part["first"].natural()),
              static_cast<int64_t>(part["last"].natural())};
  const std::string &letter = range.letter;
  part["letter"].expect(sizes.functions.back().values.count(letter), "letter with a value");
  part["letter"].expect(std::count(sizes.padded.begin(), sizes.padded.end(), letter), "letter that is padded");
  part["last"].expect(range.first > 0 && range.first <= range.last, "number that is at least the first, over 0");
  for (const auto *shapes : {&sizes.inputs, &sizes.outputs}) {
    for (const auto &named : *shapes) {
      auto count = std::count_if(named.second.begin(), named.second.end(),
                                 [&](const Axis &axis) { return axis.letter == letter; });
      bool fits = count == 1 || (count == 0 && shapes == &sizes.inputs);
      part["letter"].expect(fits, "letter that is once in the shape of each output, and at most once of each input");
    }
  }
  std::set<std::map<std::string, int64_t>> others;
  std::set<int64_t> values;
  for (const SizeFunction &each : sizes.functions) {
    part.expect(each.cost > 0, "range of functions with a cost");
    std::map<std::string, int64_t> other = each.values;
    other.erase(letter);
    others.insert(std::move(other));
    values.insert(each.values.at(letter));
  }
  part.expect(others.size() * values.size() == sizes.functions.size(), "range of functions for all other letters");
  return range;
}

inline SizeFunction read_function(const Part &part, const Info &info) {
  SizeFunction function;
  for (const std::string &letter : part["values"].keys()) {
    function.values[letter] = static_cast<int64_t>(part["values"][letter].natural());
    part["values"][letter].expect(function.values[letter] > 0, "number over 0");
  }
  function.library = part["library"].text();
  if (part.has("cost") && !part["cost"].is_null()) function.cost = static_cast<int64_t>(part["cost"].natural());
  for (const Part &place : part["params"].list()) function.params.push_back(place.natural());
  for (const TensorInfo &output : info.outputs) {
    std::vector<int64_t> &shape = function.outputs.emplace_back();
    for (const Part &size : part["outputs"][output.name].list()) shape.push_back(static_cast<int64_t>(size.natural()));
    part["outputs"][output.name].expect(shape.size() == output.shape.size(), "shape of the output");
  }
  return function;
}

// Read `sizes` of mod.json, whose other parts are in `info`.
inline Sizes read_sizes(const Part &part, const Info &info) {
  Sizes sizes;
  sizes.inputs = read_axes(part["inputs"], info.inputs);
  sizes.outputs = read_axes(part["outputs"], info.outputs);
  part["outputs"].expect(sizes.outputs.size() == info.outputs.size(), "map of the shapes of all outputs");
  for (const Part &each : part["functions"].list()) sizes.functions.push_back(read_function(each, info));
  part["functions"].expect(!sizes.functions.empty() && sizes.functions.size() <= 64, "list of functions");
  std::set<std::string> libraries;
  for (const SizeFunction &each : sizes.functions) {
    bool last = &each == &sizes.functions.back();
    bool fits = last ? each.library == "mod.so" : is_size_library(each.library);
    part["functions"].expect(fits && libraries.insert(each.library).second, "list of libraries with expected names");
    check_values(part, info, sizes, each);
  }
  for (const Part &letter : part["padded"].list()) {
    sizes.padded.push_back(letter.text());
    letter.expect(sizes.functions.back().values.count(letter.text()), "letter with a value");
  }
  for (const std::string &name : part["pad"].keys()) sizes.pad[name] = part["pad"][name].number();
  if (part.has("range") && !part["range"].is_null()) sizes.range = read_range(part["range"], sizes);
  return sizes;
}

inline std::string show(const std::map<std::string, int64_t> &values) {
  std::string text;
  for (const auto &each : values) text += (text.empty() ? "" : " ") + each.first + "=" + std::to_string(each.second);
  return text;
}

inline std::string describe(const Sizes &sizes) {
  std::string text = "its sizes are ";
  for (const SizeFunction &each : sizes.functions)
    text += (&each == sizes.functions.data() ? "" : ", ") + show(each.values);
  std::string padded;
  for (const std::string &letter : sizes.padded) {
    if (letter != sizes.range.letter) padded += (padded.empty() ? "; smaller " : " and ") + letter;
  }
  if (!padded.empty()) text += padded + " are padded";
  if (sizes.range.letter.empty()) return text;
  return text + "; " + sizes.range.letter + " from " + std::to_string(sizes.range.first) + " to " +
         std::to_string(sizes.range.last) + " is computed in parts of them";
}

// Return the values of the letters in the shapes of inputs, which are in the order of info.inputs.
inline std::map<std::string, int64_t> read_values(const Info &info, const std::vector<Tensor> &inputs) {
  std::map<std::string, int64_t> values;
  for (size_t i = 0; i < inputs.size(); i++) {
    const std::string &name = info.inputs[i].name;
    auto found = info.sizes.inputs.find(name);
    if (found == info.sizes.inputs.end()) continue;
    const std::vector<int64_t> &shape = inputs[i].info().shape;
    bool fits = shape.size() == found->second.size();
    for (size_t axis = 0; fits && axis < shape.size(); axis++) {
      const Axis &wanted = found->second[axis];
      fits = wanted.letter.empty() ? shape[axis] == wanted.length
                                   : values.emplace(wanted.letter, shape[axis]).first->second == shape[axis];
    }
    if (!fits)
      throw Error("the input " + name + " of " + info.model + " is " + show(shape) +
                  ", which does not fit its shape or the other inputs; " + describe(info.sizes));
  }
  return values;
}

// Return whether a function takes inputs of this size, if the batch of a range is computed in parts.
inline bool takes(const Sizes &sizes, const SizeFunction &function, const std::map<std::string, int64_t> &values) {
  for (const auto &own : function.values) {
    int64_t value = values.at(own.first);
    if (own.first == sizes.range.letter) {
      if (value < sizes.range.first || value > sizes.range.last) return false;
      continue;
    }
    bool is_padded = std::count(sizes.padded.begin(), sizes.padded.end(), own.first) != 0;
    if (value != own.second && !(is_padded && value > 0 && value < own.second)) return false;
  }
  return true;
}

// Return the calls for inputs of this size: one of the smallest function that takes them, or several for the parts of a
// batch in a range.
inline std::vector<BatchPart> plan_calls(const Info &info, const std::map<std::string, int64_t> &values) {
  const Sizes &sizes = info.sizes;
  const std::string &letter = sizes.range.letter;
  for (size_t i = 0; i < sizes.functions.size(); i++) {
    if (!takes(sizes, sizes.functions[i], values)) continue;
    if (letter.empty()) return {{i, 0, 0}};
    std::vector<SizeCost> fitting;
    for (size_t place = 0; place < sizes.functions.size(); place++) {
      std::map<std::string, int64_t> own = sizes.functions[place].values, wanted = sizes.functions[i].values;
      int64_t rows = own.at(letter);
      own.erase(letter);
      wanted.erase(letter);
      if (own == wanted) fitting.push_back({rows, sizes.functions[place].cost, place});
    }
    return split_batch(values.at(letter), std::move(fitting));
  }
  throw Error(info.model + " takes no " + show(values) + "; " + describe(sizes));
}

// Return the description of one size of a package alone.
inline Info describe_size(const Info &info, const SizeFunction &function) {
  Info alone = info;
  for (TensorInfo &each : alone.inputs) {
    auto found = info.sizes.inputs.find(each.name);
    if (found != info.sizes.inputs.end()) each.shape = fill_shape(found->second, function.values);
  }
  for (size_t i = 0; i < alone.outputs.size(); i++) alone.outputs[i].shape = function.outputs[i];
  alone.sizes = Sizes();
  return alone;
}

// Return the bits of a number of 16 bits that has so many bits of fraction: the nearest one, or the even one of two.
inline uint16_t round_to_16_bits(double value, int fraction) {
  const int bias = (1 << (14 - fraction)) - 1, infinite = (2 * bias + 1) << fraction;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinite | 1 << (fraction - 1));
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinite);
  const int exponent = std::max(std::ilogb(value), 1 - bias);  // that of the smallest normal number for all smaller
  const double digits = std::nearbyint(std::ldexp(std::abs(value), fraction - exponent));
  const int bits = (exponent + bias - 1) * (1 << fraction) + static_cast<int>(digits);
  return static_cast<uint16_t>(sign | std::min(bits, infinite));
}

template <typename Number>
void fill_with(const Tensor &tensor, double value) {
  std::fill_n(tensor.as<Number>(), tensor.info().count(), static_cast<Number>(value));
}

inline void fill_with_bits(const Tensor &tensor, uint16_t bits) {
  std::fill_n(tensor.as<uint16_t>(), tensor.info().count(), bits);
}

// Fill a tensor in the host's memory with the value that pads an input.
inline void fill(const Tensor &tensor, double value) {
  const std::string &dtype = tensor.info().dtype;
  if (dtype == "float32") return fill_with<float>(tensor, value);
  if (dtype == "float64") return fill_with<double>(tensor, value);
  if (dtype == "int64") return fill_with<int64_t>(tensor, value);
  if (dtype == "int32") return fill_with<int32_t>(tensor, value);
  if (dtype == "int16") return fill_with<int16_t>(tensor, value);
  if (dtype == "int8") return fill_with<int8_t>(tensor, value);
  if (dtype == "uint64") return fill_with<uint64_t>(tensor, value);
  if (dtype == "uint32") return fill_with<uint32_t>(tensor, value);
  if (dtype == "uint16") return fill_with<uint16_t>(tensor, value);
  if (dtype == "uint8") return fill_with<uint8_t>(tensor, value);
  if (dtype == "bool") return fill_with<uint8_t>(tensor, value != 0 ? 1 : 0);
  if (dtype == "float16") return fill_with_bits(tensor, round_to_16_bits(value, 10));
  if (dtype == "bfloat16")  // by way of float32, as NumPy's type of ml_dtypes rounds
    return fill_with_bits(tensor, round_to_16_bits(static_cast<float>(value), 7));
  throw Error("the input " + tensor.info().name + " is " + dtype + ", which cannot be padded");
}

}  // namespace tvmbuild::detail
