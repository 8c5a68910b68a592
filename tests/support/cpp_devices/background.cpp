// background PACKAGE CALLS: calls in the background, each with inputs of another value, and those of call() beside
// them. Prints how many had an output `same` with the bytes of their own input, and how many failed.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <tvmbuild.hpp>

namespace {

using tvmbuild::Session;
using tvmbuild::Tensor;

std::vector<Tensor> make_inputs(const Session &session, int value) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < session.info().inputs.size(); i++) {
    inputs.push_back(value % 2 == 0 ? session.make_input(i) : Tensor(session.info().inputs[i]));
    std::memset(inputs[i].data(), value, inputs[i].info().bytes());
  }
  return inputs;
}

bool has(const std::vector<Tensor> &outputs, const Tensor &input) {
  for (const Tensor &output : outputs) {
    if (output.info().name == "same")
      return std::memcmp(output.data(), input.data(), std::min(output.info().bytes(), input.info().bytes())) == 0;
  }
  return false;
}

// On a stream of this program's own; a package for a CPU has none.
void call_on_stream(Session &session) {
  void *stream = nullptr;
  if (void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
    reinterpret_cast<int (*)(void **, unsigned)>(dlsym(driver, "cuStreamCreate"))(&stream, 1);
  std::vector<Tensor> inputs = make_inputs(session, 7), outputs;
  session.bind(inputs);
  try {
    session.call_on_stream(stream);
    for (const Tensor &each : session.outputs_in_place()) outputs.push_back(each.to_host());
    std::printf("on a stream: %d right\n", has(outputs, inputs.back()));
  } catch (const tvmbuild::Error &error) {
    std::printf("on a stream: %s\n", error.what());
  }
}

// End the calls in the callback of the first one: the others are done, or cancelled, before the end returns.
void end_in_callback(Session &session) {
  const int calls = session.info().kind == "llvm" ? 2 : 3;  // as many as start or wait at once
  std::atomic<int> done{0}, added{0}, seen{-1};
  for (int call = 0; call < calls; call++) {
    session.call_async(make_inputs(session, call), [&, call](const auto &, const auto &) {
      if (call == 0) {
        while (added < calls) std::this_thread::yield();
        session.end_async();
        seen = done.load();
      }
      done++;
    });
    added++;
  }
  while (done < calls) std::this_thread::yield();
  std::printf("at an end in a callback: %d of %d\n", seen.load(), calls - 1);
}

void run(const std::string &package, int calls) {
  std::atomic<int> right{0}, failed{0};
  Session session(package);
  session.bind(make_inputs(session, 100));
  for (int call = 0; call < calls; call++) {
    std::vector<Tensor> inputs = make_inputs(session, call + 1);
    session.call_async(inputs, [&, inputs](const std::vector<Tensor> &outputs, const std::exception_ptr &error) {
      right += !error && has(outputs, inputs.back());
      failed += static_cast<bool>(error);
    });
    if (call % 4 == 0) session.call();
  }
  session.wait_async();
  std::printf("%d right, %d failed\n", right.load(), failed.load());
  call_on_stream(session);
  end_in_callback(session);
  if (session.info().frames.empty()) return;
  right = failed = 0;
  std::vector<uint8_t> bytes(session.info().frames[0].bytes());
  for (int call = 0; call < calls; call++) {
    tvmbuild::FrameOptions options;
    options.inputs = {make_inputs(session, call + 1).back()};
    auto done = [&, options](const tvmbuild::Results &results, const std::exception_ptr &error) {
      right += !error && has(results.outputs, options.inputs[0]);
      failed += static_cast<bool>(error);
    };
    session.run_frame_async(bytes.data(), bytes.size(), done, options);
  }
  session.run_frame_async(bytes.data(), 1,
                          [&](const auto &, const auto &error) { failed += static_cast<bool>(error); });
  session.wait_async();
  std::printf("frames: %d right, %d failed\n", right.load(), failed.load());
}

}  // namespace

int main(int words, char **word) {
  if (words != 3) return 2;
  try {
    run(word[1], std::atoi(word[2]));
  } catch (const tvmbuild::Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
