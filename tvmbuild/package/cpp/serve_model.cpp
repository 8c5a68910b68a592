// Holds a package on a board without Python, for tvmbuild's `device: {ssh: …}`: serve_model PACKAGE.tar THREADS
//
// The twin of devices/serve_model.py: reads one JSON command a line and answers each with one JSON line. In between it
// writes a sign of life every `beat_s` seconds. Arrays follow their line as raw bytes, in the order of mod.json.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
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
      if (command.contains("shapes")) resize(command.at("shapes"));
      for (tvmbuild::Tensor &input : inputs_) {
        auto size = static_cast<std::streamsize>(input.info().bytes());
        if (!std::cin.read(static_cast<char *>(input.data()), size)) throw tvmbuild::Error("too few bytes of inputs");
      }
      std::vector<tvmbuild::Tensor> placed;  // placed once, so that no copy is timed, as in Python's twin
      placed.reserve(inputs_.size());
      for (const tvmbuild::Tensor &input : inputs_) placed.push_back(session_.to_device(input));
      session_.bind(placed);
      answer(json::object());
    } else if (what == "outputs") {
      send_outputs();
    } else if (what == "warm_up") {
      auto start = Clock::now();
      double ms = time_ms(1);
      do {
        ms = time_ms(1);
      } while (seconds_since(start) < command.at("seconds").get<double>());
      answer({{"ms", ms}});
    } else if (what == "time") {
      std::vector<double> samples(command.at("repeat").get<size_t>());
      for (double &sample : samples) sample = time_ms(command.at("number"));
      answer({{"ms", samples}});
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
  // Make the inputs of one size of a package whose shapes vary.
  void resize(const json &shapes) {
    for (size_t i = 0; i < inputs_.size(); i++) {
      tvmbuild::TensorInfo info = inputs_[i].info();
      info.shape = shapes.at(i).get<std::vector<int64_t>>();
      inputs_[i] = tvmbuild::Tensor(info);
    }
  }

  double time_ms(int number) {
    auto start = Clock::now();
    for (int i = 0; i < number; i++) session_.call();
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
  std::vector<tvmbuild::Tensor> inputs_;
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
