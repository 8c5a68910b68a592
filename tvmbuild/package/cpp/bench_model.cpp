// Latency of a package, or of two in turns, for example the tuned and the untuned: bench_model PACKAGE.tar [OTHER.tar]
// [options]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "program.h"
#include "tvmbuild.hpp"

namespace {

const char *const USAGE =
    "usage: bench_model PACKAGE.tar [OTHER.tar] [--repeat N] [--number N] [--threads N] [--size T=64]\n"
    "\n"
    "A GPU's time includes copying the inputs to the device and the outputs back.\n"
    "\n"
    "OTHER.tar   timed in turns with the first, sample by sample: how many times as long it takes\n"
    "--repeat N  samples (default: 100)\n"
    "--number N  calls in a sample (default: 1)\n"
    "--threads N default: the cores that the package was tuned for, as far as there are so many\n"
    "--size T=64 the inputs' size in a package of several sizes, or H=320,W=640 (default: the largest); with "
    "OTHER.tar,\n"
    "            one of the two may be of this shape alone\n";

using Size = std::map<std::string, int64_t>;

// The shapes of inputs of a size, which may lie between those of the package.
std::vector<tvmbuild::TensorInfo> shape_inputs(tvmbuild::Session &session, const Size &size) {
  const tvmbuild::Info &info = session.info();
  std::vector<tvmbuild::TensorInfo> inputs = info.inputs;
  if (size.empty()) return inputs;
  auto has_letter = [&](const Size::value_type &own) { return size.count(own.first) != 0; };
  const std::vector<tvmbuild::SizeFunction> &functions = info.sizes.functions;
  bool fits = !functions.empty() && functions.back().values.size() == size.size() &&
              std::all_of(functions.back().values.begin(), functions.back().values.end(), has_letter);
  if (!fits) session.at(size);  // throws, and lists the sizes
  for (tvmbuild::TensorInfo &input : inputs) {
    auto found = info.sizes.inputs.find(input.name);
    for (size_t axis = 0; found != info.sizes.inputs.end() && axis < input.shape.size(); axis++) {
      if (!found->second[axis].letter.empty()) input.shape[axis] = size.at(found->second[axis].letter);
    }
  }
  return inputs;
}

// [-1, 1) for floats, 0 for integers, which may be indices.
std::vector<tvmbuild::Tensor> make_inputs(const std::vector<tvmbuild::TensorInfo> &infos) {
  std::mt19937 engine(0);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<tvmbuild::Tensor> inputs;
  for (const tvmbuild::TensorInfo &each : infos) {
    inputs.emplace_back(each);
    if (each.dtype != "float32") continue;
    std::generate_n(inputs.back().as<float>(), each.count(), [&] { return distribution(engine); });
  }
  return inputs;
}

// A session with its inputs bound, and room for its outputs.
struct Candidate {
  tvmbuild::Session session;
  bool on_gpu;
  std::vector<tvmbuild::Tensor> outputs;

  Candidate(const std::string &package, int threads)
      : session(package, threads), on_gpu(session.info().kind != "llvm") {}

  void bind(const std::vector<tvmbuild::TensorInfo> &inputs) {
    session.bind(make_inputs(inputs));
    session.call();
    outputs = session.outputs();
  }
};

// Bind inputs of a size. A package of one shape beside one of several must have that of the size.
void bind_all(std::vector<Candidate> &candidates, const Size &size) {
  auto varies = [](const Candidate &each) { return !each.session.info().sizes.functions.empty(); };
  auto found = std::find_if(candidates.begin(), candidates.end(), varies);
  Candidate &first = found == candidates.end() ? candidates.front() : *found;
  std::vector<tvmbuild::TensorInfo> inputs = shape_inputs(first.session, size);
  for (Candidate &each : candidates) each.bind(size.empty() ? each.session.info().inputs : inputs);
}

double time_ms(Candidate &candidate, int number) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < number; i++) {
    candidate.session.call();
    if (candidate.on_gpu) candidate.session.copy_outputs(candidate.outputs);
  }
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / number;
}

// Calls that do not count: after another session's turn its threads spin for a while, and the caches hold its data.
void settle(Candidate &candidate, double for_ms) {
  for (double spent = 0; spent < for_ms;) spent += time_ms(candidate, 1);
}

double print_statistics(const Candidate &candidate, std::vector<double> samples, int number) {
  const tvmbuild::Info &info = candidate.session.info();
  std::sort(samples.begin(), samples.end());
  size_t size = samples.size();
  const double count = static_cast<double>(size);
  double sum = 0, squares = 0;
  for (double sample : samples) sum += sample;
  for (double sample : samples) squares += (sample - sum / count) * (sample - sum / count);
  double median = (samples[size / 2] + samples[(size - 1) / 2]) / 2;
  size_t late = std::min(size - 1, static_cast<size_t>(std::ceil(0.95 * count)) - 1);
  std::printf("%s for %s, %d of %d tasks tuned, %d threads\n", info.model.c_str(), info.target.c_str(), info.covered,
              info.tasks, candidate.session.threads());
  std::printf("  ms: median %.4f, mean %.4f, min %.4f, p95 %.4f, max %.4f, std %.4f (%zu samples of %d)\n", median,
              sum / count, samples.front(), samples[late], samples.back(),
              size > 1 ? std::sqrt(squares / (count - 1)) : 0.0, size, number);
  if (candidate.on_gpu)
    std::printf("  each call copies its inputs to the %s device, waits for it and copies its outputs back\n",
                info.kind.c_str());
  return median;
}

void run(const tvmbuild::Arguments &arguments) {
  int repeat = arguments.number("--repeat", 100), number = arguments.number("--number", 1);
  std::vector<Candidate> candidates;
  candidates.reserve(arguments.plain.size());
  for (const std::string &package : arguments.plain) candidates.emplace_back(package, arguments.number("--threads", 0));
  bind_all(candidates, arguments.size("--size"));
  for (Candidate &candidate : candidates) settle(candidate, 500);
  std::vector<std::vector<double>> samples(candidates.size());
  for (int i = 0; i < repeat; i++) {
    for (size_t j = 0; j < candidates.size(); j++) {
      if (candidates.size() > 1) settle(candidates[j], 2);
      samples[j].push_back(time_ms(candidates[j], number));
    }
  }
  std::vector<double> medians;
  medians.reserve(candidates.size());
  for (size_t j = 0; j < candidates.size(); j++) medians.push_back(print_statistics(candidates[j], samples[j], number));
  if (medians.size() == 2)
    std::printf("%s takes %.3f times as long as %s\n", arguments.plain[1].c_str(), medians[1] / medians[0],
                arguments.plain[0].c_str());
}

}  // namespace

int main(int count, char **words) {
  return tvmbuild::run_program(USAGE, count, words, [&] {
    run(tvmbuild::read_arguments(count, words, {"--repeat", "--number", "--threads", "--size"}, 1, 2));
  });
}
