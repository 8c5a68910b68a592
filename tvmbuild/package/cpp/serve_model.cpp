// Holds a package on a board without Python, for tvmbuild's `device: {ssh: …}`: serve_model PACKAGE.tar THREADS
//
// The twin of devices/serve_model.py: reads one JSON command a line and answers each with one JSON line. In between it
// writes a sign of life every `beat_s` seconds. Arrays follow their line as raw bytes, in the order of mod.json.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "third_party/nlohmann/json.hpp"
#include "tvmbuild.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Server {
 public:
  Server(FILE *answers, const std::string &package, int threads) : answers_(answers), session_(package, threads) {
    for (const tvmbuild::TensorInfo &each : session_.info().inputs) inputs_.emplace_back(each);
    answer({{"threads", session_.threads()}});
  }

  void obey(const json &command) {
    const std::string what = command.at("do");
    last_beat_ = Clock::now();
    beat_s_ = command.value("beat_s", 10.0);
    if (what == "bind") {
      bool has_function = true;  // what is padded or cut into parts stays in the host's memory
      if (command.contains("size")) has_function = resize(command.at("size"), command.at("shapes"));
      for (tvmbuild::Tensor &input : inputs_) {
        auto size = static_cast<std::streamsize>(input.info().bytes());
        if (!std::cin.read(static_cast<char *>(input.data()), size)) throw tvmbuild::Error("too few bytes of inputs");
      }
      std::vector<tvmbuild::Tensor> placed;  // placed once, so that no copy is timed, as in Python's twin
      placed.reserve(inputs_.size());
      for (const tvmbuild::Tensor &input : inputs_) placed.push_back(has_function ? session_.to_device(input) : input);
      session_.bind(placed);
      answer(json::object());
    } else if (what == "outputs") {
      send_outputs();
    } else if (what == "warm_up" || what == "warm_up_frames") {
      auto start = Clock::now();
      double ms = time_ms(call_of(what == "warm_up_frames"), 1);
      do {
        ms = time_ms(call_of(what == "warm_up_frames"), 1);
      } while (seconds_since(start) < command.at("seconds").get<double>());
      answer({{"ms", ms}});
    } else if (what == "time" || what == "time_frames") {
      std::vector<double> samples(command.at("repeat").get<size_t>());
      for (double &sample : samples) sample = time_ms(call_of(what == "time_frames"), command.at("number"));
      answer({{"ms", samples}});
    } else if (what == "bind_frames") {
      bind_frames(command.at("sizes").get<std::vector<size_t>>());
    } else if (what == "compute_frame") {
      compute_frame(command.at("frame"));
    } else if (what == "find_in_frame" || what == "choose_frame") {
      choose_frame(command);
      if (what == "find_in_frame") send_all(run_frame().arrays);
      if (what == "choose_frame") answer(json::object());
    } else if (what == "cost_of_frames") {
      answer(measure_cost(command.at("seconds"), command.at("calls")));
    } else if (what == "read") {
      std::ifstream file(command.at("path").get<std::string>());
      std::ostringstream text;
      text << file.rdbuf();
      answer({{"text", file ? json(text.str()) : json()}});
    } else {
      throw tvmbuild::Error("there is no command " + what);
    }
  }

 private:
  // Make the inputs of one size of a package whose shapes vary, and let frames be for this size. Return whether the
  // size has a function of its own.
  bool resize(const json &size, const json &shapes) {
    auto values = size.get<std::map<std::string, int64_t>>();
    for (size_t i = 0; i < inputs_.size(); i++) {
      tvmbuild::TensorInfo info = inputs_[i].info();
      info.shape = shapes.at(i).get<std::vector<int64_t>>();
      inputs_[i] = tvmbuild::Tensor(info);
    }
    std::vector<std::map<std::string, int64_t>> sizes = session_.sizes();
    bool has_function = std::find(sizes.begin(), sizes.end(), values) != sizes.end();
    if (has_function && !session_.info().frames.empty()) framed_ = &session_.at(values);
    return has_function;
  }

  void bind_frames(const std::vector<size_t> &sizes) {
    if (session_.info().frames.empty()) throw tvmbuild::Error("the package takes no frames");
    frames_.clear();
    for (size_t size : sizes) {
      frames_.emplace_back(tvmbuild::TensorInfo{"frame", {static_cast<int64_t>(size)}, "uint8", {}});
      if (!std::cin.read(static_cast<char *>(frames_.back().data()), static_cast<std::streamsize>(size)))
        throw tvmbuild::Error("too few bytes of frames");
    }
    picture_ = tvmbuild::picture_input(session_.info(), *session_.info().preprocess);
    chosen_ = tvmbuild::FrameOptions();
    for (size_t i = 0; i < inputs_.size(); i++) {
      if (i != picture_) chosen_.inputs.push_back(inputs_[i]);
    }
    choose(0);
    answer(json::object());
  }

  void choose(size_t number) {
    frame_ = number;
    chosen_.encoding = session_.info().frames.at(number).encoding;
    chosen_.width = session_.info().frames.at(number).width;
  }

  void choose_frame(const json &command) {
    choose(command.at("frame"));
    chosen_.score = read_optional(command.at("score"));
    chosen_.overlap = read_optional(command.at("overlap"));
  }

  static std::optional<double> read_optional(const json &value) {
    return value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
  }

  const tvmbuild::Results &run_frame() {
    const tvmbuild::Tensor &frame = frames_.at(frame_);
    return framed_->run_frame(frame.as<uint8_t>(), frame.info().bytes(), chosen_);
  }

  tvmbuild::Tensor prepare_frame() {
    const tvmbuild::Tensor &frame = frames_.at(frame_);
    return framed_->prepare_frame(frame.as<uint8_t>(), frame.info().bytes(), chosen_);
  }

  // Send the input that becomes of a frame, and the outputs for it; of a package without results also those of the
  // function that takes the frame.
  void compute_frame(size_t number) {
    choose(number);
    std::vector<tvmbuild::Tensor> inputs = inputs_, sent = {prepare_frame()};
    inputs[picture_] = sent[0];
    for (tvmbuild::Tensor &each : session_.run(inputs)) sent.push_back(each);
    if (session_.info().postprocess.empty()) {
      for (const tvmbuild::Tensor &each : run_frame().outputs) sent.push_back(each);
    }
    session_.bind(inputs_);
    send_all(sent);
  }

  void send_all(const std::vector<tvmbuild::Tensor> &tensors) {
    json forms = json::array();
    for (const tvmbuild::Tensor &each : tensors)
      forms.push_back({{"shape", each.info().shape}, {"dtype", each.info().dtype}});
    answer({{"arrays", forms}});
    for (const tvmbuild::Tensor &each : tensors) std::fwrite(each.data(), 1, each.info().bytes(), answers_);
    std::fflush(answers_);
  }

  // Return the medians of the parts and the CPU time of a frame; the parts take turns of `calls` calls.
  json measure_cost(double seconds, int calls) {
    std::vector<tvmbuild::Tensor> inputs = inputs_;
    inputs[picture_] = prepare_frame();
    session_.bind(inputs);
    std::vector<double> prepare, network;
    for (auto start = Clock::now(); network.empty() || seconds_since(start) < seconds / 2;) {
      for (int i = 0; i < calls; i++) prepare.push_back(time_ms([this] { prepare_frame(); }, 1));
      for (int i = 0; i < calls; i++) network.push_back(time_ms([this] { session_.call(); }, 1));
    }
    session_.bind(inputs_);
    run_frame();
    std::clock_t used = std::clock();
    int count = 0;
    for (auto start = Clock::now(); count < calls || seconds_since(start) < seconds / 2; count++)
      time_ms([this] { run_frame(); }, 1);
    double cpu_ms = static_cast<double>(std::clock() - used) * 1000 / CLOCKS_PER_SEC / count;
    return {{"parts_ms", {{"prepare", find_median(prepare)}, {"network", find_median(network)}}}, {"cpu_ms", cpu_ms}};
  }

  static double find_median(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

  std::function<void()> call_of(bool with_frame) {
    if (with_frame) return [this] { run_frame(); };
    return [this] { session_.call(); };
  }

  double time_ms(const std::function<void()> &call, int number) {
    auto start = Clock::now();
    for (int i = 0; i < number; i++) call();
    double ms = seconds_since(start) * 1000 / number;
    if (seconds_since(last_beat_) >= beat_s_) {
      last_beat_ = Clock::now();
      answer({{"alive", true}});
    }
    return ms;
  }

  void send_outputs() {
    session_.call();
    std::vector<tvmbuild::Tensor> outputs = session_.outputs();
    answer(json::object());
    for (const tvmbuild::Tensor &output : outputs) {
      const tvmbuild::TensorInfo &declared = session_.info().outputs[&output - outputs.data()];
      for (const tvmbuild::Count &count : declared.counts) {  // the reader knows all other sizes
        int64_t length = output.info().shape[count.axis];
        std::fwrite(&length, 1, sizeof length, answers_);
      }
      std::fwrite(output.data(), 1, output.info().bytes(), answers_);
    }
    std::fflush(answers_);
  }

  void answer(const json &value) {
    std::string line = value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    std::fwrite(line.data(), 1, line.size(), answers_);
    std::fflush(answers_);
  }

  FILE *answers_;
  tvmbuild::Session session_;
  tvmbuild::Session *framed_ = &session_;  // that of the frames: of the size of the bound inputs
  std::vector<tvmbuild::Tensor> inputs_;
  std::vector<tvmbuild::Tensor> frames_;  // the bytes of each frame of the package
  tvmbuild::FrameOptions chosen_;
  size_t frame_ = 0, picture_ = 0;  // the chosen frame, and the input that is the picture
  Clock::time_point last_beat_;
  double beat_s_ = 10;
};

// Ends the process, even while it computes, when the reader of its answers is gone.
void watch(int answers) {
  pollfd reader{answers, 0, 0};
  while (poll(&reader, 1, -1) <= 0) {
  }
  _exit(1);
}

}  // namespace

int main(int count, char **words) {
  if (count != 3) return 2;
  int descriptor = dup(1);
  dup2(2, 1);  // all output of libraries goes to stderr
  FILE *answers = fdopen(descriptor, "w");
  std::thread(watch, descriptor).detach();
  try {
    Server server(answers, words[1], std::stoi(words[2]));
    for (std::string line; std::getline(std::cin, line);) server.obey(json::parse(line));
    std::fflush(answers);
    _exit(0);  // the thread that watches still runs
  } catch (const std::exception &error) {
    std::string line = json{{"error", error.what()}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    std::fwrite(line.data(), 1, line.size(), answers);
    std::fflush(answers);
    _exit(1);
  }
}
