// Resizing of pictures as in Pillow: package/preprocess.py's twin. A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../tvmbuild.hpp"

namespace tvmbuild::detail {

constexpr size_t MAX_PIXELS = size_t{1} << 28;

// One side of Pillow's bilinear resize (Resample.c): a triangle as wide as the reduction, weights in 22 bits.
inline Picture resize_along(const Picture &from, int size, bool horizontal) {
  int old = horizontal ? from.width : from.height;
  if (old == size) return from;
  if (static_cast<size_t>(size) > MAX_PIXELS / (horizontal ? from.height : from.width))
    throw Error("the picture is too long and thin");
  Picture to{horizontal ? size : from.width, horizontal ? from.height : size, from.channels, {}};
  to.pixels.resize(static_cast<size_t>(to.width) * to.height * to.channels);
  constexpr int BITS = 22;
  double scale = static_cast<double>(old) / size, reach = std::max(scale, 1.0);
  size_t channels = from.channels, step = horizontal ? channels : channels * from.width;
  size_t lines = horizontal ? from.height : from.width;
  for (int at = 0; at < size; at++) {
    double center = (at + 0.5) * scale, total = 0;
    int first = std::max(0, static_cast<int>(center - reach + 0.5));
    int last = std::min(old, static_cast<int>(center + reach + 0.5));
    std::vector<double> weights;
    for (int i = first; i < last; i++) {
      double distance = std::fabs((i - center + 0.5) * (1.0 / reach));
      weights.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
      total += weights.back();
    }
    std::vector<int32_t> fixed;
    fixed.reserve(weights.size());
    for (double weight : weights)
      fixed.push_back(static_cast<int32_t>(0.5 + (total != 0 ? weight / total : weight) * (1 << BITS)));
    for (size_t line = 0; line < lines; line++) {
      size_t in = horizontal ? line * from.width * channels : line * channels;
      size_t out = horizontal ? (line * size + at) * channels : (static_cast<size_t>(at) * to.width + line) * channels;
      for (size_t channel = 0; channel < channels; channel++) {
        int32_t sum = 1 << (BITS - 1);
        for (size_t i = 0; i < fixed.size(); i++) sum += from.pixels[in + (first + i) * step + channel] * fixed[i];
        to.pixels[out + channel] = static_cast<uint8_t>(std::clamp(sum >> BITS, 0, 255));
      }
    }
  }
  return to;
}

inline Picture resize(const Picture &from, int width, int height) {
  return resize_along(resize_along(from, width, true), height, false);
}

inline Picture convert(const Picture &from, bool gray) {
  if (from.channels == (gray ? 1 : 3)) return from;
  Picture to{from.width, from.height, gray ? 1 : 3, {}};
  for (size_t i = 0; i < static_cast<size_t>(from.width) * from.height; i++) {
    const uint8_t *at = from.pixels.data() + i * from.channels;
    if (gray) {
      to.pixels.push_back(static_cast<uint8_t>((at[0] * 19595 + at[1] * 38470 + at[2] * 7471 + 0x8000) >> 16));
    } else {
      to.pixels.insert(to.pixels.end(), 3, at[0]);
    }
  }
  return to;
}

// Half of a difference, rounded to even as Python does.
inline int half(int difference) { return difference / 2 + (difference % 2 == 1 && difference / 2 % 2 == 1 ? 1 : 0); }

inline Picture place(const Picture &from, int width, int height, int left, int top, uint8_t fill = 0) {
  Picture to{width, height, from.channels, {}};
  to.pixels.assign(static_cast<size_t>(width) * height * from.channels, fill);
  for (int y = std::max(0, -top); y < from.height && y + top < height; y++) {
    int begin = std::max(0, -left), end = std::min(from.width, width - left);
    const uint8_t *row = from.pixels.data() + (static_cast<size_t>(y) * from.width + begin) * from.channels;
    std::copy(row, row + static_cast<size_t>(end - begin) * from.channels,
              to.pixels.data() + ((static_cast<size_t>(y) + top) * width + begin + left) * from.channels);
  }
  return to;
}

inline Picture fit(const Picture &from, int width, int height, const Preprocess &rules) {
  if (rules.resize == "stretch") return resize(from, width, height);
  bool crop = rules.resize == "crop";
  int64_t whole_width = width, whole_height = height;
  bool along_width = (whole_width * from.height <= whole_height * from.width) == !crop;
  if (crop) {
    whole_width = static_cast<int64_t>(std::floor(width / rules.crop_pct));
    whole_height = static_cast<int64_t>(std::floor(height / rules.crop_pct));
  }
  int64_t by_width = whole_width * from.height, by_height = whole_height * from.width;
  int64_t scaled_width = along_width ? whole_width : std::max<int64_t>(1, by_height / from.height);
  int64_t scaled_height = along_width ? std::max<int64_t>(1, by_width / from.width) : whole_height;
  if (static_cast<size_t>(scaled_width * scaled_height) > MAX_PIXELS) throw Error("the picture is too long and thin");
  Picture scaled = resize(from, static_cast<int>(scaled_width), static_cast<int>(scaled_height));
  if (crop) return place(scaled, width, height, -half(scaled.width - width), -half(scaled.height - height));
  bool corner = rules.align == "top-left";
  int left = corner ? 0 : (width - scaled.width) / 2, top = corner ? 0 : (height - scaled.height) / 2;
  return place(scaled, width, height, left, top, rules.fill);
}

}  // namespace tvmbuild::detail
