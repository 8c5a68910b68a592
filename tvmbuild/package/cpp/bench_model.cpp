/* Latency of a package, or of two in turns, the tuned and the untuned say: bench_model PACKAGE.tar [OTHER.tar]
 * [options] */
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>

#include "tvmbuild.h"

namespace {

const char* const kUsage =
    "usage: bench_model PACKAGE.tar [OTHER.tar] [--repeat N] [--number N] [--threads N]\n"
    "\n"
    "OTHER.tar   timed in turns with the first, call by call: how many times as long it takes\n"
    "--repeat N  samples (default: 100)\n"
    "--number N  calls in a sample (default: 1)\n"
    "--threads N default: the cores that the package was tuned for, as far as there are so many\n";

struct Options {
  std::vector<std::string> packages;
  int repeat = 100, number = 1, threads = 0;
};

Options read_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; i++) {
    std::string word = words[i];
    if (word.compare(0, 2, "--") != 0) {
      options.packages.push_back(word);
      continue;
    }
    int* place = word == "--repeat"    ? &options.repeat
                 : word == "--number"  ? &options.number
                 : word == "--threads" ? &options.threads
                                       : nullptr;
    if (place == nullptr) throw std::invalid_argument("there is no option " + word);
    std::string value = i + 1 < count ? words[++i] : "";
    char* end = nullptr;
    long read = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0' || read < 1 || read > 1 << 20)
      throw std::invalid_argument(word + " needs a number over 0");
    *place = static_cast<int>(read);
  }
  if (options.packages.empty() || options.packages.size() > 2)
    throw std::invalid_argument("one or two packages are needed");
  return options;
}

/* [-1, 1) for floats, 0 for integers, which may be indices. */
std::vector<tvmbuild::Tensor> make_inputs(const tvmbuild::Info& info) {
  std::mt19937 engine(0);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<tvmbuild::Tensor> inputs;
  for (const tvmbuild::TensorInfo& each : info.inputs) {
    inputs.emplace_back(each);
    if (each.dtype != "float32") continue;
    std::generate_n(inputs.back().as<float>(), each.count(), [&] { return distribution(engine); });
  }
  return inputs;
}

double time_ms(tvmbuild::Session& session, int number) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < number; i++) session.call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / number;
}

double print_statistics(const tvmbuild::Session& session, std::vector<double> samples, int number) {
  const tvmbuild::Info& info = session.info();
  std::sort(samples.begin(), samples.end());
  size_t size = samples.size();
  double sum = 0, squares = 0;
  for (double sample : samples) sum += sample;
  for (double sample : samples) squares += (sample - sum / size) * (sample - sum / size);
  double median = (samples[size / 2] + samples[(size - 1) / 2]) / 2;
  size_t late = std::min(size - 1, static_cast<size_t>(std::ceil(0.95 * size)) - 1);
  std::printf("%s for %s, %d of %d tasks tuned, %d threads\n", info.model.c_str(), info.target.c_str(), info.covered,
              info.tasks, session.threads());
  std::printf("  ms: median %.4f, mean %.4f, min %.4f, p95 %.4f, max %.4f, std %.4f (%zu samples of %d)\n", median,
              sum / size, samples.front(), samples[late], samples.back(),
              size > 1 ? std::sqrt(squares / (size - 1)) : 0.0, size, number);
  return median;
}

void run(const Options& options) {
  std::vector<tvmbuild::Session> sessions;
  for (const std::string& package : options.packages) {
    sessions.emplace_back(package, options.threads);
    sessions.back().bind(make_inputs(sessions.back().info()));
  }
  for (tvmbuild::Session& session : sessions) { /* half a second, twice at least */
    double spent = 0;
    for (int calls = 0; calls < 2 || spent < 500; calls++) spent += time_ms(session, 1);
  }
  std::vector<std::vector<double>> samples(sessions.size());
  for (int i = 0; i < options.repeat; i++) {
    for (size_t j = 0; j < sessions.size(); j++) samples[j].push_back(time_ms(sessions[j], options.number));
  }
  std::vector<double> medians;
  for (size_t j = 0; j < sessions.size(); j++)
    medians.push_back(print_statistics(sessions[j], samples[j], options.number));
  if (medians.size() == 2)
    std::printf("%s takes %.3f times as long as %s\n", options.packages[1].c_str(), medians[1] / medians[0],
                options.packages[0].c_str());
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count == 2 && std::strcmp(words[1], "--help") == 0) {
      std::printf("%s", kUsage);
      return 0;
    }
    run(read_options(count, words));
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "error: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
