// A detector on the wire of ROS 2, by Cyclone DDS alone:
// dds_detector IMAGE_TOPIC DETECTIONS_TOPIC PACKAGE … [--score X] [--class NAME]…
#include <dds/dds.h>
#include <messages.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tvmbuild_detector/detector.hpp"
#include "tvmbuild_detector/newest_worker.hpp"

namespace {

using tvmbuild_detector::Detection;
using Picture = sensor_msgs_msg_dds__Image_;
using Answer = vision_msgs_msg_dds__Detection2DArray_;
using Found = vision_msgs_msg_dds__Detection2D_;
using Hypothesis = vision_msgs_msg_dds__ObjectHypothesisWithPose_;

volatile std::sig_atomic_t ended = 0;

dds_entity_t check(dds_entity_t entity, const char *what) {
  if (entity < 0) throw std::runtime_error(std::string(what) + ": " + dds_strretcode(-entity));
  return entity;
}

// The quality of service of rclcpp::SensorDataQoS, or of an ordinary publisher.
struct Quality {
  explicit Quality(bool sensor) : qos(dds_create_qos()) {
    dds_qset_reliability(qos, sensor ? DDS_RELIABILITY_BEST_EFFORT : DDS_RELIABILITY_RELIABLE, DDS_MSECS(100));
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, sensor ? 5 : 10);
    dds_qset_durability(qos, DDS_DURABILITY_VOLATILE);
    const dds_data_representation_id_t representation = DDS_DATA_REPRESENTATION_XCDR1;
    dds_qset_data_representation(qos, 1, &representation);
  }
  ~Quality() { dds_delete_qos(qos); }
  Quality(const Quality &) = delete;
  Quality &operator=(const Quality &) = delete;
  dds_qos_t *qos;
};

// A picture that Cyclone DDS lends until this goes.
class Loan {
 public:
  Loan(dds_entity_t reader, void *sample) : reader_(reader), sample_(sample) {}
  ~Loan() { dds_return_loan(reader_, &sample_, 1); }
  Loan(const Loan &) = delete;
  Loan &operator=(const Loan &) = delete;
  const Picture &picture() const { return *static_cast<const Picture *>(sample_); }

 private:
  dds_entity_t reader_;
  void *sample_;
};

// ROS' name of a topic has no slash in front here: image is rt/image.
std::string on_the_wire(std::string topic) {
  while (!topic.empty() && topic[0] == '/') topic.erase(0, 1);
  return "rt/" + topic;
}

void publish(dds_entity_t writer, const Picture &picture, const std::vector<Detection> &detections) {
  std::vector<Found> found(detections.size());
  std::vector<Hypothesis> hypotheses(detections.size());
  static char no_id[] = "";
  for (size_t i = 0; i < detections.size(); i++) {
    const Detection &from = detections[i];
    hypotheses[i].hypothesis_.class_id_ = const_cast<char *>(from.class_id.c_str());
    hypotheses[i].hypothesis_.score_ = from.score;
    hypotheses[i].pose_.pose_.orientation_.w_ = 1;
    found[i].header_ = picture.header_;
    found[i].results_._buffer = &hypotheses[i];
    found[i].results_._length = found[i].results_._maximum = 1;
    found[i].bbox_.center_.position_.x_ = from.center_x;
    found[i].bbox_.center_.position_.y_ = from.center_y;
    found[i].bbox_.size_x_ = from.size_x;
    found[i].bbox_.size_y_ = from.size_y;
    found[i].id_ = no_id;
  }
  Answer answer = {};
  answer.header_ = picture.header_;
  answer.detections_._buffer = found.data();
  answer.detections_._length = answer.detections_._maximum = static_cast<uint32_t>(found.size());
  check(dds_write(writer, &answer), "the detections cannot be written");
}

void run(int count, char **words) {
  if (count < 4)
    throw std::runtime_error(
        "usage: dds_detector IMAGE_TOPIC DETECTIONS_TOPIC PACKAGE … [--score X] "
        "[--class NAME]…");
  tvmbuild_detector::Options options;
  for (int i = 3; i < count; i++) {
    std::string word = words[i];
    if (word != "--score" && word != "--class") {
      options.packages.push_back(word);
    } else if (i + 1 == count) {
      throw std::runtime_error(word + " needs a value");
    } else if (word == "--class") {
      options.classes.emplace_back(words[++i]);
    } else {
      char *end = nullptr;
      options.score = std::strtod(words[++i], &end);
      if (end == words[i] || *end != '\0') throw std::runtime_error(std::string(words[i]) + " is not a number");
    }
  }
  tvmbuild_detector::Detector detector(options);
  dds_entity_t participant = check(dds_create_participant(DDS_DOMAIN_DEFAULT, nullptr, nullptr), "no participant");
  std::unique_ptr<void, void (*)(void *)> closer(&participant,
                                                 [](void *each) { dds_delete(*static_cast<dds_entity_t *>(each)); });
  Quality sensor(true), ordinary(false);
  dds_entity_t images = check(
      dds_create_topic(participant, &sensor_msgs_msg_dds__Image__desc, on_the_wire(words[1]).c_str(), nullptr, nullptr),
      words[1]);
  dds_entity_t answers = check(dds_create_topic(participant, &vision_msgs_msg_dds__Detection2DArray__desc,
                                                on_the_wire(words[2]).c_str(), nullptr, nullptr),
                               words[2]);
  dds_entity_t reader = check(dds_create_reader(participant, images, sensor.qos, nullptr), words[1]);
  dds_entity_t writer = check(dds_create_writer(participant, answers, ordinary.qos, nullptr), words[2]);
  dds_entity_t condition = check(dds_create_readcondition(reader, DDS_ANY_STATE), "no condition");
  dds_entity_t waiting = check(dds_create_waitset(participant), "no waitset");
  check(dds_waitset_attach(waiting, condition, 0), "the waitset");

  uint64_t dropped = 0;
  {
    tvmbuild_detector::NewestWorker<std::shared_ptr<Loan>> worker([&](std::shared_ptr<Loan> loan) {
      const Picture &from = loan->picture();
      try {
        tvmbuild_detector::Image image{from.height_, from.width_,        from.encoding_,
                                       from.step_,   from.data_._buffer, from.data_._length};
        publish(writer, from, detector.detect(image));
      } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
      }
    });
    std::printf("%s waits for pictures\n", detector.model().c_str());
    std::fflush(stdout);
    while (ended == 0) {
      if (dds_waitset_wait(waiting, nullptr, 0, DDS_MSECS(200)) <= 0) continue;
      for (;;) {
        void *sample = nullptr;
        dds_sample_info_t info = {};
        if (check(dds_take(reader, &sample, &info, 1, 1), words[1]) < 1) break;
        auto loan = std::make_shared<Loan>(reader, sample);
        if (info.valid_data) worker.submit(std::move(loan));
      }
    }
    dropped = worker.dropped();
  }
  std::printf("%llu pictures were dropped for newer ones\n", static_cast<unsigned long long>(dropped));
}

}  // namespace

int main(int count, char **words) {
  std::signal(SIGINT, [](int) { ended = 1; });
  std::signal(SIGTERM, [](int) { ended = 1; });
  try {
    run(count, words);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
