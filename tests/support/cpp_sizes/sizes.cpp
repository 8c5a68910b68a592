// Run a package at several sizes with one session: sizes PACKAGE FOLDER SHAPES… A run's SHAPES are those of all inputs,
// as 2x5,2x5. Run n reads FOLDER/n-i.in, raw, and writes FOLDER/n-i.out, and again FOLDER/n-i.copy by copy_outputs().
// Or show the boxes in a frame at one of the sizes, or at the default: sizes PACKAGE FRAME ENCODING [H=32,W=64]
#include <atomic>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tvmbuild.hpp"

namespace {

std::vector<std::string> split(const std::string &text, char mark) {
  std::vector<std::string> parts;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, mark);) parts.push_back(item);
  return parts;
}

void write(const std::string &path, const tvmbuild::Tensor &tensor) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char *>(tensor.data()), static_cast<std::streamsize>(tensor.info().bytes()));
}

void run(tvmbuild::Session &session, const std::string &begin, const std::string &shapes) {
  std::vector<tvmbuild::Tensor> inputs;
  for (const std::string &shape : split(shapes, ',')) {
    tvmbuild::TensorInfo info = session.info().inputs[inputs.size()];
    info.shape.clear();
    for (const std::string &length : split(shape, 'x')) info.shape.push_back(std::stoll(length));
    tvmbuild::Tensor input(info);
    std::ifstream file(begin + std::to_string(inputs.size()) + ".in", std::ios::binary);
    file.read(static_cast<char *>(input.data()), static_cast<std::streamsize>(info.bytes()));
    inputs.push_back(std::move(input));
  }
  std::vector<tvmbuild::Tensor> outputs = session.run(inputs);
  for (const tvmbuild::Tensor &output : outputs) {
    std::string name = begin + std::to_string(&output - outputs.data());
    write(name + ".out", output);
    for (int64_t length : output.info().shape) std::cout << length << " ";
  }
  std::cout << "\n";
  std::vector<tvmbuild::Tensor> copies;
  for (const tvmbuild::Tensor &output : outputs) copies.emplace_back(output.info());
  session.call();
  session.copy_outputs(copies);
  for (const tvmbuild::Tensor &copy : copies) write(begin + std::to_string(&copy - copies.data()) + ".copy", copy);
}

void show_boxes(tvmbuild::Session &session, const std::string &path, const std::string &encoding) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  std::string frame = bytes.str();
  tvmbuild::FrameOptions options;
  options.encoding = encoding;
  const auto *start = reinterpret_cast<const uint8_t *>(frame.data());
  std::cout.precision(9);
  for (const tvmbuild::Box &box : session.run_frame(start, frame.size(), options).boxes)
    std::cout << box.x << " " << box.y << " " << box.width << " " << box.height << " " << box.score << " " << box.index
              << "\n";
}

// Throw unless a call of the session computes the same while the session of its size runs on other inputs.
void check_apart(tvmbuild::Session &session, const std::map<std::string, int64_t> &size) {
  tvmbuild::Session &other = session.at(size);
  std::vector<tvmbuild::Tensor> mine, others;
  for (const tvmbuild::TensorInfo &info : other.info().inputs) {
    mine.emplace_back(info);
    others.emplace_back(info);
    auto *bytes = static_cast<unsigned char *>(others.back().data());
    for (size_t i = 0; i < info.bytes(); i += info.bytes() / info.count()) bytes[i] = 1;
  }
  std::vector<tvmbuild::Tensor> want = session.run(mine);
  std::vector<tvmbuild::Tensor> found = other.run(others);
  std::vector<tvmbuild::Tensor> before = session.outputs();
  session.call();
  std::vector<tvmbuild::Tensor> after = session.outputs();
  bool differs = false;
  for (size_t i = 0; i < want.size(); i++) {
    size_t bytes = want[i].info().bytes();
    differs = differs || std::memcmp(want[i].data(), found[i].data(), bytes) != 0;
    if (std::memcmp(want[i].data(), before[i].data(), bytes) != 0) throw std::runtime_error("other outputs");
    if (std::memcmp(want[i].data(), after[i].data(), bytes) != 0) throw std::runtime_error("other inputs");
  }
  if (!differs) throw std::runtime_error("both inputs have the same outputs");
}

// The number of libraries of the package's code in this process, by their files.
size_t count_libraries() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> files;
  for (std::string line, range, mode, offset, device, file; std::getline(maps, line);) {
    std::istringstream(line) >> range >> mode >> offset >> device >> file;
    if (line.find("/mod.so") != std::string::npos) files.insert(file);
  }
  return files.size();
}

// Throw unless calls in the background compute the same, beside calls of the session, with the libraries that are
// loaded.
void check_background(tvmbuild::Session &session) {
  if (count_libraries() != session.sizes().size()) throw std::runtime_error("not one library for each size");
  std::atomic<int> same{0};
  for (const auto &size : session.sizes()) {
    std::vector<tvmbuild::Tensor> inputs;
    for (const tvmbuild::TensorInfo &info : session.at(size).info().inputs) inputs.emplace_back(info);
    std::vector<tvmbuild::Tensor> want = session.run(inputs);
    session.call_async(inputs, [&same, want](const std::vector<tvmbuild::Tensor> &outputs, const auto &error) {
      if (error || outputs.size() != want.size()) return;
      bool equal = true;
      for (size_t i = 0; i < want.size(); i++)
        equal = equal && std::memcmp(outputs[i].data(), want[i].data(), want[i].info().bytes()) == 0;
      same += equal;
    });
    session.call();
  }
  session.wait_async();
  if (static_cast<size_t>(same) != session.sizes().size()) throw std::runtime_error("other outputs in the background");
  if (count_libraries() != session.sizes().size()) throw std::runtime_error("calls in the background load code again");
}

tvmbuild::Session &find_size(tvmbuild::Session &session, const std::string &text) {
  std::map<std::string, int64_t> size;
  for (const std::string &each : split(text, ',')) {
    std::vector<std::string> pair = split(each, '=');
    size[pair.at(0)] = std::stoll(pair.at(1));
  }
  return session.at(size);
}

}  // namespace

int main(int count, char **arguments) {
  try {
    tvmbuild::Session session(arguments[1], 2);
    if (!session.info().frames.empty()) {
      show_boxes(count > 4 ? find_size(session, arguments[4]) : session, arguments[2], arguments[3]);
      return 0;
    }
    for (const auto &size : session.sizes()) {
      for (const auto &each : size) std::cout << each.first << "=" << each.second << " ";
    }
    std::cout << "\n";
    for (const auto &size : session.sizes()) check_apart(session, size);
    check_background(session);
    for (int i = 3; i < count; i++)
      run(session, std::string(arguments[2]) + "/" + std::to_string(i - 3) + "-", arguments[i]);
    return 0;
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
