// A picture as sensor_msgs/Image has it, and the frame of a package that it becomes.
#pragma once

#include <tvmbuild.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tvmbuild_detector {

// The fields of a sensor_msgs/Image, without a copy of its bytes.
struct Image {
  uint32_t height = 0, width = 0;
  std::string encoding;  // ROS' name, for example bgr8
  uint32_t step = 0;     // the distance of two rows in bytes
  const uint8_t *data = nullptr;
  size_t size = 0;  // of the data
};

// A frame that the package takes.
struct FrameForm {
  std::string encoding;  // the package's name, for example yuyv
  uint32_t height = 0, width = 0;
  size_t rows = 0;    // of bytes: 3/2 of the height for planes such as nv12
  size_t used = 0;    // the bytes of a row that have pixels
  size_t stride = 0;  // the distance of two rows in bytes
};

// Return the package's name of an encoding of ROS: yuv422_yuy2 becomes yuyv. Other names stay.
std::string name_encoding(const std::string &ros);

// Return the frames that a package takes. Throws std::runtime_error with a message for users.
std::vector<FrameForm> list_frames(tvmbuild_package *package);

// Lays a picture's rows out as a package's frame has them.
class Framer {
 public:
  explicit Framer(std::vector<FrameForm> forms) : forms_(std::move(forms)) {}

  struct Frame {
    const uint8_t *data = nullptr;
    size_t size = 0;
    const FrameForm *form = nullptr;
  };

  // Return the picture's bytes where they are, or a copy in memory that the next call overwrites if the gaps between
  // rows are other ones. Throws std::runtime_error with a message for users if the package takes no such picture.
  Frame lay_out(const Image &image);

 private:
  std::vector<FrameForm> forms_;
  std::vector<uint8_t> copy_;
};

}  // namespace tvmbuild_detector
