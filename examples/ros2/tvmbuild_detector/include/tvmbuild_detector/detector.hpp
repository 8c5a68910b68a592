// A package of tvmbuild as a detector: pictures in, boxes of the wished classes out. It knows nothing of ROS.
#pragma once

#include <tvmbuild.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tvmbuild_detector/image.hpp"

namespace tvmbuild_detector {

// The fields of a vision_msgs/Detection2D. The box is in the picture's pixels.
struct Detection {
  double center_x = 0, center_y = 0, size_x = 0, size_y = 0;
  std::string class_id;  // the class's name, or its number if it has no name
  double score = 0;
};

struct Options {
  std::vector<std::string> packages;  // the first that this machine can run is used
  int threads = 0;                    // of one call; 0: as the package was tuned
  int priority = 0;                   // idle threads help the calls of the highest priority first
  std::optional<double> score;        // instead of the package's threshold
  std::optional<double> overlap;      // the same
  std::vector<std::string> classes;   // names or numbers; empty: all
};

class Detector {
 public:
  // Load the package. Throws std::runtime_error with a message for users; a class that the package lacks is one.
  explicit Detector(const Options &options);
  ~Detector();
  Detector(const Detector &) = delete;
  Detector &operator=(const Detector &) = delete;

  // Return the detections in a picture, the best first. Throws std::runtime_error with a message for users.
  std::vector<Detection> detect(const Image &image);
  // Change the thresholds and the classes of later pictures, from the thread that calls detect().
  void choose(std::optional<double> score, std::optional<double> overlap, const std::vector<std::string> &classes);
  // Return why packages before the loaded one were passed over; empty if none was.
  std::string passed_over() const;
  const std::string &model() const { return model_; }

 private:
  tvmbuild_session *session_ = nullptr;
  tvmbuild_package *package_ = nullptr;
  std::string model_;
  std::vector<std::string> labels_;
  std::optional<double> score_, overlap_;
  std::set<int> wished_;  // numbers of classes; empty: all
  std::unique_ptr<Framer> framer_;
};

}  // namespace tvmbuild_detector
