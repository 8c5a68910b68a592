// threads PACKAGE.tar RUNS: eight threads with a session each, RUNS runs in each, sessions made again ten times.
// Prints how many outputs differed from their thread's first, and resident kB after the first and the last round.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <tvmbuild.hpp>

namespace {

constexpr int THREADS = 8, ROUNDS = 10;

long resident_kb() {
  std::ifstream stream("/proc/self/status");
  for (std::string word; stream >> word;) {
    long value = 0;
    if (word == "VmRSS:" && stream >> value) return value;
  }
  return -1;
}

void work(const std::string &package, int seed, int runs, std::atomic<long> &done, std::atomic<long> &different) {
  try {
    tvmbuild::Session session(package, seed % 2);  // 0: as many threads as it was tuned for
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> distribution(0, 1);
    std::vector<tvmbuild::Tensor> inputs;
    for (const tvmbuild::TensorInfo &info : session.info().inputs) {
      inputs.emplace_back(info);
      for (size_t i = 0; i < info.count(); i++) inputs.back().as<float>()[i] = distribution(engine);
    }
    std::vector<tvmbuild::Tensor> first = session.run(inputs);
    for (int i = 0; i < runs; i++, done++) {
      std::vector<tvmbuild::Tensor> again = session.run(inputs);
      for (size_t j = 0; j < first.size(); j++)
        different += std::memcmp(first[j].data(), again[j].data(), first[j].info().bytes()) != 0;
    }
  } catch (const tvmbuild::Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
}

}  // namespace

int main(int, char **words) {
  std::atomic<long> done{0}, different{0};
  long before = 0;
  for (int round = 0; round < ROUNDS; round++) {
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
      threads.emplace_back([&, i] { work(words[1], i, std::atoi(words[2]) / ROUNDS, done, different); });
    for (std::thread &thread : threads) thread.join();
    if (round == 0) before = resident_kb();
  }
  std::printf("runs %ld different %ld before %ld after %ld\n", done.load(), different.load(), before, resident_kb());
}
