// The objects in pictures whose size the package takes as a frame, as detect.py prints them: detect PACKAGE.tar PICTURE
// …
#include <read_picture.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <tvmbuild.hpp>

using Boxes = std::vector<tvmbuild::Box>;

// Return the objects in the picture with a grey margin on each side, in the picture's own pixels.
static Boxes look(tvmbuild::Session &session, const tvmbuild::Picture &picture, int across, int down) {
  tvmbuild::FrameOptions options;
  options.encoding = picture.channels == 3 ? "rgb8" : "mono8";
  options.width = picture.width + 2 * across;
  size_t row = size_t(picture.width * picture.channels), wide = size_t(options.width * picture.channels);
  std::vector<uint8_t> frame(wide * size_t(picture.height + 2 * down), 114);
  for (size_t y = 0; y < size_t(picture.height); y++)
    std::copy_n(&picture.pixels[y * row], row, &frame[(y + size_t(down)) * wide + size_t(across * picture.channels)]);
  Boxes own;
  for (tvmbuild::Box box : session.run_frame(frame.data(), frame.size(), options).boxes) {
    float right = std::min(box.x + box.width - float(across), float(picture.width));
    float bottom = std::min(box.y + box.height - float(down), float(picture.height));
    box.x = std::max(box.x - float(across), 0.0F), box.y = std::max(box.y - float(down), 0.0F);
    box.width = right - box.x, box.height = bottom - box.y;
    if (box.width > 0 && box.height > 0) own.push_back(box);
  }
  return own;
}

static float sum_scores(const Boxes &boxes) {
  return std::accumulate(boxes.begin(), boxes.end(), 0.0F, [](float sum, auto &box) { return sum + box.score; });
}

int main(int count, char **words) {
  try {
    if (count < 3) throw tvmbuild::Error("give a package and at least one picture");
    tvmbuild::Session session(words[1]);
    for (int i = 2; i < count; i++) {
      tvmbuild::Picture picture = tvmbuild::read_picture(words[i]);
      Boxes close = look(session, picture, 0, 0), far = look(session, picture, picture.width / 2, picture.height / 2);
      std::printf("%s\n", words[i]);
      for (const tvmbuild::Box &box : sum_scores(far) > sum_scores(close) ? far : close)
        std::printf("  %.2f  %-12s %5.0f %5.0f %5.0f %5.0f\n", box.score, std::string(box.label).c_str(), box.x, box.y,
                    box.x + box.width, box.y + box.height);
    }
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
