// devices PACKAGE FOLDER CALLS: runs on FOLDER/<n>.in, writes FOLDER/<n>.out, and does the same CALLS times with arrays
// that stay on the device, handed over by DLPack. Prints how many outputs differed, and what was refused.
#include <dlpack/dlpack.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <tvmbuild.hpp>

namespace {

using tvmbuild::Session;
using tvmbuild::Tensor;

std::vector<Tensor> read_inputs(const Session &session, const std::string &folder) {
  std::vector<Tensor> inputs;
  for (const tvmbuild::TensorInfo &info : session.info().inputs) {
    Tensor input(info);
    std::ifstream file(folder + std::to_string(inputs.size()) + ".in", std::ios::binary);
    if (!file.read(static_cast<char *>(input.data()), static_cast<std::streamsize>(info.bytes())))
      throw tvmbuild::Error("too few bytes for " + info.name);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

void write_outputs(const std::vector<Tensor> &outputs, const std::string &folder) {
  for (size_t i = 0; i < outputs.size(); i++) {
    std::ofstream file(folder + std::to_string(i) + ".out", std::ios::binary);
    file.write(static_cast<const char *>(outputs[i].data()), static_cast<std::streamsize>(outputs[i].info().bytes()));
  }
}

int count_different(const std::vector<Tensor> &got, const std::vector<Tensor> &want) {
  int different = 0;
  for (size_t i = 0; i < want.size(); i++)
    different += std::memcmp(got[i].data(), want[i].data(), want[i].info().bytes()) != 0;
  return different;
}

template <typename Act>
void refuse(Act act) {
  try {
    act();
    std::printf("taken\n");
  } catch (const tvmbuild::Error &error) {
    std::printf("refused: %s\n", error.what());
  }
}

void run(const std::string &package, const std::string &folder, int calls) {
  int different = 0;
  std::vector<Tensor> there, held;
  {
    Session session(package);
    std::vector<Tensor> inputs = read_inputs(session, folder), want = session.run(inputs);
    write_outputs(want, folder);
    for (const Tensor &input : inputs) there.emplace_back(input.info().name, session.to_device(input).to_dlpack());
    std::printf("inputs are in the host's memory: %d\n", there[0].on_host());
    std::vector<Tensor> got = session.outputs();
    session.bind(there);
    for (int i = 0; i < calls; i++) {
      session.call();
      session.copy_outputs(got);
      different += count_different(got, want);
    }
    held = session.outputs_in_place();
    std::memset(inputs[0].data(), 0, inputs[0].info().bytes());
    session.run(inputs);  // of zeros: what is held stays
    std::vector<Tensor> again = read_inputs(session, folder);
    std::memcpy(inputs[0].data(), again[0].data(), again[0].info().bytes());
    session.call();  // on what the bound tensor holds now
    different += count_different(session.outputs(), want);
    DLManagedTensor *shifted = there[0].to_dlpack();
    shifted->dl_tensor.byte_offset = 64;
    refuse([&] { Tensor("shifted", shifted); });
    DLManagedTensor *elsewhere = there[0].to_dlpack();
    elsewhere->dl_tensor.device = DLDevice{kDLOpenCL, 3};
    inputs[0] = Tensor("elsewhere", elsewhere);
    refuse([&] { session.bind(inputs); });
    refuse([&] { session.copy_outputs({}); });
    if (!there[0].on_host()) refuse([&] { there[0].as<float>(); });
  }
  // The first session is gone, its arrays are not.
  Session second(package);
  second.bind(there);
  second.call();
  std::vector<Tensor> want = second.outputs();
  for (Tensor &each : held) each = each.to_host();
  different += count_different(held, want);
  std::printf("different %d\n", different);
}

}  // namespace

int main(int, char **words) {
  try {
    run(words[1], std::string(words[2]) + "/", std::atoi(words[3]));
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
