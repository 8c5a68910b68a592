// The metadata of a package as arrays of C. A part of libtvmbuild.so.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "errors.h"

namespace tvmbuild::c {

using Words = std::vector<const char *>;

inline Words list_words(const std::vector<std::string> &texts) {
  Words words;
  words.reserve(texts.size());
  for (const std::string &each : texts) words.push_back(each.c_str());
  return words;
}

// The metadata, and the arrays that C needs beside it. It does not move, because they point into it.
struct PackageView {
  struct SizeArrays {
    Words letters;
    std::vector<int64_t> values;
  };

  explicit PackageView(Info given) : info(std::move(given)), labels(list_words(info.labels)) {
    for (const Postprocess &each : info.postprocess) {
      result_labels.push_back(list_words(each.labels));
      result_outputs.push_back(list_words(each.outputs));
    }
    for (const std::vector<TensorInfo> *list : {&info.inputs, &info.outputs}) {
      for (const TensorInfo &each : *list) {
        counted.emplace_back();
        for (const Count &count : each.counts) counted.back().push_back(count.axis);
      }
    }
    for (const SizeFunction &each : info.sizes.functions) {
      sizes.emplace_back();
      for (const auto &[letter, value] : each.values) {
        sizes.back().letters.push_back(letter.c_str());
        sizes.back().values.push_back(value);
      }
    }
  }
  PackageView(const PackageView &) = delete;
  PackageView &operator=(const PackageView &) = delete;

  const Info info;
  Words labels;
  std::vector<Words> result_labels, result_outputs;
  std::vector<std::vector<size_t>> counted;  // of the inputs, then of the outputs
  std::vector<SizeArrays> sizes;
};

}  // namespace tvmbuild::c
