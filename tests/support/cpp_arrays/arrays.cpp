// Run a package on inputs from files: arrays PACKAGE FOLDER THREADS reads FOLDER/<n>.in and writes FOLDER/<n>.out, raw,
// in order.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tvmbuild.hpp"

int main(int, char **arguments) {
  try {
    const std::string folder = std::string(arguments[2]) + "/";
    tvmbuild::Session session(arguments[1], std::stoi(arguments[3]));
    std::vector<tvmbuild::Tensor> inputs;
    for (const tvmbuild::TensorInfo &info : session.info().inputs) {
      tvmbuild::Tensor input(info);
      std::ifstream file(folder + std::to_string(inputs.size()) + ".in", std::ios::binary);
      if (!file.read(static_cast<char *>(input.data()), static_cast<std::streamsize>(info.bytes())))
        throw tvmbuild::Error("too few bytes for " + info.name);
      inputs.push_back(std::move(input));
    }
    size_t count = 0;
    for (const tvmbuild::Tensor &output : session.run(inputs)) {
      std::ofstream file(folder + std::to_string(count++) + ".out", std::ios::binary);
      file.write(static_cast<const char *>(output.data()), static_cast<std::streamsize>(output.info().bytes()));
    }
    std::cout << session.threads() << " threads\n";
    return 0;
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
