// sharing PACKAGE CALLS: runs with inputs in arrays of the session's, and with inputs in memory of its own. Fails if an
// output changes when the inputs do and the next call runs. Prints the first output's shape, and how often an output
// `same` had the first input's bytes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tvmbuild.hpp>

namespace {

using tvmbuild::Session;
using tvmbuild::Tensor;

// An output, and what it was when its call had ended.
struct Held {
  Tensor output;
  std::vector<char> bytes;
};

std::vector<char> read(const Tensor &tensor) {
  Tensor here = tensor.to_host();
  const char *first = static_cast<const char *>(here.data());
  return {first, first + here.info().bytes()};
}

void run(const std::string &package, int calls) {
  std::vector<Held> held;
  std::vector<Tensor> made, own;
  size_t same = 0;
  Session session(package);
  for (size_t i = 0; i < session.info().inputs.size(); i++) {
    made.push_back(session.make_input(i));
    own.emplace_back(session.info().inputs[i]);
    if (!made[i].on_host()) throw tvmbuild::Error("an input is not on the host");
    std::memset(made[i].data(), 0, made[i].info().bytes());
  }
  for (const std::vector<Tensor> &inputs : {made, own}) {
    session.bind(inputs);
    for (int call = 0; call < calls; call++) {
      for (const Tensor &input : inputs) std::memset(input.data(), call + 1, input.info().bytes());
      session.call();
      size_t before = held.size();
      std::vector<Tensor> there = session.outputs_in_place();
      for (const std::vector<Tensor> &outputs : {session.outputs(), there}) {
        for (const Tensor &output : outputs) {
          held.push_back({output, read(output)});
          same += output.info().name == "same" && held.back().bytes == read(inputs[0]);
        }
      }
      for (size_t i = 0; i < before; i++) {
        if (read(held[i].output) != held[i].bytes) throw tvmbuild::Error("an output was overwritten");
      }
    }
  }
  std::string shape;
  for (int64_t size : held[0].output.info().shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  std::printf("(%s) %zu\n", shape.c_str(), same);
  try {
    session.make_input(99);
    throw std::runtime_error("an input that is not there was made");
  } catch (const tvmbuild::Error &) {
  }
}

}  // namespace

int main(int count, char **words) {
  try {
    if (count != 3) throw tvmbuild::Error("sharing PACKAGE CALLS");
    run(words[1], std::atoi(words[2]));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
