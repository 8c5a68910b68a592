// The objects in a picture whose size the package takes as a frame, as detect.py prints them:
// detect PACKAGE.tar PICTURE
#include <read_picture.h>

#include <cstdio>
#include <exception>
#include <tvmbuild.hpp>

int main(int count, char **words) {
  try {
    if (count != 3) throw tvmbuild::Error("give a package and a picture");
    tvmbuild::Session session(words[1]);
    tvmbuild::Picture picture = tvmbuild::read_picture(words[2]);
    tvmbuild::FrameOptions options;
    options.width = picture.width;
    for (const tvmbuild::Box &box : session.run_frame(picture.pixels.data(), picture.pixels.size(), options).boxes)
      std::printf("%.2f  %-12s %5.0f %5.0f %5.0f %5.0f\n", box.score, std::string(box.label).c_str(), box.x, box.y,
                  box.width, box.height);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
