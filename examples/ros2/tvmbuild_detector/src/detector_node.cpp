// The adaptor of the detector to ROS 2: parameters, topics and messages, and nothing else.
#include <memory>
#include <mutex>
#include <rclcpp/rclcpp.hpp>
#include <rclcpp_components/register_node_macro.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <string>
#include <vector>
#include <vision_msgs/msg/detection2_d_array.hpp>

#include "tvmbuild_detector/detector.hpp"
#include "tvmbuild_detector/newest_worker.hpp"

namespace tvmbuild_detector {

class DetectorNode : public rclcpp::Node {
  using Message = sensor_msgs::msg::Image::ConstSharedPtr;

 public:
  explicit DetectorNode(const rclcpp::NodeOptions &options) : Node("detector", options) {
    Options wished;
    wished.packages = declare_parameter<std::vector<std::string>>("packages", std::vector<std::string>{});
    wished.threads = static_cast<int>(declare_parameter<int64_t>("threads", 0));
    wished.priority = static_cast<int>(declare_parameter<int64_t>("priority", 0));
    declare_parameter<double>("score", -1.0);  // below 0: the package's
    declare_parameter<double>("overlap", -1.0);
    declare_parameter<std::vector<std::string>>("classes", std::vector<std::string>{});
    detector_ = std::make_unique<Detector>(wished);
    choose(get_parameters({"score", "overlap", "classes"}));
    if (!detector_->passed_over().empty()) RCLCPP_WARN(get_logger(), "%s", detector_->passed_over().c_str());
    publisher_ = create_publisher<vision_msgs::msg::Detection2DArray>("detections", 10);
    worker_ = std::make_unique<NewestWorker<Message>>([this](Message image) { handle(*image); });
    subscription_ = create_subscription<sensor_msgs::msg::Image>(
        "image", rclcpp::SensorDataQoS(), [this](Message image) { worker_->submit(std::move(image)); });
    parameters_ = add_on_set_parameters_callback([this](const std::vector<rclcpp::Parameter> &changed) {
      rcl_interfaces::msg::SetParametersResult result;
      result.successful = true;
      try {
        choose(changed);
      } catch (const std::exception &error) {
        result.successful = false;
        result.reason = error.what();
      }
      return result;
    });
  }

  ~DetectorNode() override {
    subscription_.reset();
    worker_.reset();  // before the detector and the publisher that it uses
  }

 private:
  void choose(const std::vector<rclcpp::Parameter> &changed) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::optional<double> score = score_, overlap = overlap_;
    std::vector<std::string> classes = classes_;
    auto threshold = [](const rclcpp::Parameter &each) {
      return each.as_double() < 0 ? std::nullopt : std::optional<double>(each.as_double());
    };
    for (const rclcpp::Parameter &each : changed) {
      if (each.get_name() == "score") score = threshold(each);
      if (each.get_name() == "overlap") overlap = threshold(each);
      if (each.get_name() == "classes") classes = each.as_string_array();
    }
    detector_->choose(score, overlap, classes);
    score_ = score;
    overlap_ = overlap;
    classes_ = classes;
  }

  void handle(const sensor_msgs::msg::Image &image) {
    vision_msgs::msg::Detection2DArray answer;
    answer.header = image.header;
    try {
      std::lock_guard<std::mutex> lock(mutex_);
      Image view{image.height, image.width, image.encoding, image.step, image.data.data(), image.data.size()};
      for (const Detection &each : detector_->detect(view)) {
        vision_msgs::msg::Detection2D detection;
        detection.header = image.header;
        detection.bbox.center.position.x = each.center_x;
        detection.bbox.center.position.y = each.center_y;
        detection.bbox.size_x = each.size_x;
        detection.bbox.size_y = each.size_y;
        detection.results.resize(1);
        detection.results[0].hypothesis.class_id = each.class_id;
        detection.results[0].hypothesis.score = each.score;
        answer.detections.push_back(std::move(detection));
      }
    } catch (const std::exception &error) {
      RCLCPP_ERROR_THROTTLE(get_logger(), *get_clock(), 5000, "%s", error.what());
      return;
    }
    publisher_->publish(answer);
  }

  std::mutex mutex_;  // the detector serves one thread at a time
  std::unique_ptr<Detector> detector_;
  std::optional<double> score_, overlap_;
  std::vector<std::string> classes_;
  rclcpp::Publisher<vision_msgs::msg::Detection2DArray>::SharedPtr publisher_;
  std::unique_ptr<NewestWorker<Message>> worker_;
  rclcpp::Subscription<sensor_msgs::msg::Image>::SharedPtr subscription_;
  OnSetParametersCallbackHandle::SharedPtr parameters_;
};

}  // namespace tvmbuild_detector

RCLCPP_COMPONENTS_REGISTER_NODE(tvmbuild_detector::DetectorNode)
