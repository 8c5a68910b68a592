// Calls in the background: async PACKAGE.tar. Prints a line for each fact.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "tvmbuild.hpp"

namespace {

std::vector<tvmbuild::Tensor> make_inputs(const tvmbuild::Info &info, float value) {
  std::vector<tvmbuild::Tensor> inputs;
  for (const tvmbuild::TensorInfo &each : info.inputs) {
    inputs.emplace_back(each);
    float *numbers = inputs.back().as<float>();
    for (size_t i = 0; i < each.count(); i++) numbers[i] = value;
  }
  return inputs;
}

bool is_same(const std::vector<tvmbuild::Tensor> &a, const std::vector<tvmbuild::Tensor> &b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    if (std::memcmp(a[i].data(), b[i].data(), a[i].info().bytes()) != 0) return false;
  }
  return true;
}

// Holds a callback back until it may go on.
class Gate {
 public:
  void pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_for_one() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return arrived_; });
  }
  void open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false, open_ = false;
};

struct Counts {
  std::atomic<int> done{0}, cancelled{0}, failed{0}, different{0};
};

tvmbuild::Done count(Counts &counts, const std::vector<tvmbuild::Tensor> &want) {
  return [&counts, want](const std::vector<tvmbuild::Tensor> &outputs, const std::exception_ptr &error) {
    if (!error) {
      counts.done++;
      counts.different += !is_same(outputs, want);
      return;
    }
    try {
      std::rethrow_exception(error);
    } catch (const tvmbuild::Cancelled &) {
      counts.cancelled++;
    } catch (const tvmbuild::Error &) {
      counts.failed++;
    }
  };
}

void run(const char *package) {
  tvmbuild::Session session(package, 1);
  std::vector<std::vector<tvmbuild::Tensor>> inputs, wanted;
  for (int i = 0; i < 4; i++) {
    inputs.push_back(make_inputs(session.info(), 0.25F * static_cast<float>(i)));
    wanted.push_back(session.run(inputs.back()));
  }
  Counts all;
  session.bind(inputs[0]);
  for (size_t i = 0; i < 400; i++) {
    session.call_async(inputs[i % 4], count(all, wanted[i % 4]));
    session.call();  // other calls of the session do not disturb them
    all.different += !is_same(session.outputs(), wanted[0]);
  }
  session.wait_async();
  std::printf("in order: %d done, %d different\n", all.done.load(), all.different.load());

  Counts newest;
  Gate gate;
  session.call_async(inputs[0], [&](const auto &, const auto &) { gate.pass(); });
  gate.wait_for_one();
  for (size_t i = 0; i < 50; i++) session.call_async(inputs[i % 4], count(newest, wanted[i % 4]), true);
  int before = newest.cancelled;
  gate.open();
  session.wait_async();
  std::printf("newest: %d cancelled at once, %d done, %d different\n", before, newest.done.load(),
              newest.different.load());

  Counts wrong;
  session.call_async({}, count(wrong, {}));
  session.wait_async();
  std::printf("wrong inputs: %d failed\n", wrong.failed.load());

  Counts refused;
  session.call_async(inputs[0], [&](const auto &, const auto &) {
    session.call_async(inputs[1], count(refused, wanted[1]));
    try {
      session.call_async(inputs[2], count(refused, wanted[2]));
    } catch (const tvmbuild::Error &error) {
      std::printf("in a callback: %s\n", error.what());
    }
  });
  session.wait_async();
  std::printf("from a callback: %d done\n", refused.done.load());

  Counts ended;
  Gate last;
  {
    tvmbuild::Session other(package, 1);
    other.call_async(inputs[0], [&](const auto &, const auto &) { last.pass(); });
    last.wait_for_one();
    other.call_async(inputs[1], [&](const auto &outputs, const std::exception_ptr &error) {
      count(ended, wanted[1])(outputs, error);
      last.open();  // the end of the session has cancelled this call, and waits for the other
    });
  }
  std::printf("at the end: %d cancelled\n", ended.cancelled.load());

  Counts late;
  Gate another;
  {
    tvmbuild::Session other(package, 1);
    other.call_async(inputs[0], [&](const auto &, const auto &) {
      another.pass();
      other.call_async(inputs[1], count(late, wanted[1]));  // the session is ending
    });
    another.wait_for_one();
    other.call_async(inputs[2], [&](const auto &, const auto &) { another.open(); });
  }
  std::printf("added at the end: %d cancelled\n", late.cancelled.load());
}

}  // namespace

int main(int words, char **word) {
  if (words != 2) return 2;
  try {
    run(word[1]);
  } catch (const tvmbuild::Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
