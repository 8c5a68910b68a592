// detect PACKAGE ENCODING HEIGHT WIDTH STEP SCORE FILE… [, CLASS…]: prints a line for each detection in each picture.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>

#include "tvmbuild_detector/detector.hpp"

int main(int count, char **words) try {
  if (count < 8) return 2;
  tvmbuild_detector::Options options;
  options.packages = {"", words[1]};
  int last = 7;
  while (last < count && words[last][0] != ',') last++;
  for (int i = last + 1; i < count; i++) options.classes.emplace_back(words[i]);
  tvmbuild_detector::Detector detector(options);
  if (words[6][0] != '-') detector.choose(std::atof(words[6]), {}, options.classes);
  for (int i = 7; i < last; i++) {
    std::ifstream file(words[i], std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    tvmbuild_detector::Image image;
    image.height = static_cast<uint32_t>(std::atoi(words[3]));
    image.width = static_cast<uint32_t>(std::atoi(words[4]));
    image.encoding = words[2];
    image.step = static_cast<uint32_t>(std::atoi(words[5]));
    image.data = reinterpret_cast<const uint8_t *>(bytes.data());
    image.size = bytes.size();
    for (const tvmbuild_detector::Detection &each : detector.detect(image))
      std::printf("%s %.17g %.17g %.17g %.17g %.17g\n", each.class_id.c_str(), each.score, each.center_x, each.center_y,
                  each.size_x, each.size_y);
  }
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
