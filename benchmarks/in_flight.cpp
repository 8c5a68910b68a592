// Throughput of calls in flight on a GPU from C++: in_flight PACKAGE.tar SECONDS. Prints calls a second for call() with
// outputs, and for call_async(), with inputs in page-locked and in pageable memory. in_flight.py has the kernels alone.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <tvmbuild.hpp>

namespace {

using tvmbuild::Session;
using tvmbuild::Tensor;

double measure(const std::function<void(int)> &calls, double seconds) {
  using clock = std::chrono::steady_clock;
  int number = 20;
  for (int turn = 0;; turn++) {
    auto start = clock::now();
    calls(number);
    double took = std::chrono::duration<double>(clock::now() - start).count();
    if (turn > 0 && took > 0.5 * seconds) return number / took;
    if (turn > 0) number = static_cast<int>(number * seconds / took) + 1;
  }
}

void run(const char *package, double seconds) {
  Session session(package);
  std::vector<Tensor> locked, pageable;
  for (size_t i = 0; i < session.info().inputs.size(); i++) {
    locked.push_back(session.make_input(i));
    pageable.emplace_back(session.info().inputs[i]);
  }
  for (const auto *inputs : {&locked, &pageable}) {
    const char *memory = inputs == &locked ? "" : ", pageable";
    session.bind(*inputs);
    double alone = measure(
        [&](int number) {
          for (int i = 0; i < number; i++) {
            session.call();
            session.outputs();
          }
        },
        seconds);
    std::atomic<int> failed{0};
    double together = measure(
        [&](int number) {
          for (int i = 0; i < number; i++)
            session.call_async(*inputs, [&](const auto &, const auto &error) { failed += static_cast<bool>(error); });
          session.wait_async();
        },
        seconds);
    std::printf("%s: call%s %.0f calls/s, call_async%s %.0f calls/s, %d failed\n", session.info().model.c_str(), memory,
                alone, memory, together, failed.load());
  }
}

}  // namespace

int main(int words, char **word) {
  if (words != 3) return 2;
  try {
    run(word[1], std::atof(word[2]));
  } catch (const tvmbuild::Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
