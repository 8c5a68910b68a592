// Classify a picture and print the classes: run_model PACKAGE.tar PICTURE [LABELS] [options]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "program.h"
#include "read_picture.h"
#include "tvmbuild.h"

namespace {

const char *const USAGE =
    "usage: run_model PACKAGE.tar PICTURE [LABELS] [--normalize NUMBERS] [--top N] [--threads N]\n"
    "\n"
    "LABELS      a text file, one name a line; default: those of the package\n"
    "--normalize imagenet, none, or MEAN,MEAN,MEAN:STD,STD,STD instead of the package's mean and std\n"
    "--top N     how many classes to print (default: 5)\n"
    "--threads N default: the cores that the package was tuned for, as far as there are so many\n";

std::vector<double> read_numbers(const std::string &text) {
  std::vector<double> numbers;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    char *end = nullptr;
    numbers.push_back(std::strtod(item.c_str(), &end));
    if (item.empty() || *end != '\0') throw tvmbuild::Error("--normalize: " + item + " is no number");
  }
  return numbers;
}

void normalize(tvmbuild::Preprocess &rules, const std::string &how) {
  if (how == "none") {
    rules.mean = rules.std = {};
  } else if (how == "imagenet") {
    rules.mean = {0.485, 0.456, 0.406};
    rules.std = {0.229, 0.224, 0.225};
    if (rules.color == "bgr") {
      std::reverse(rules.mean.begin(), rules.mean.end());
      std::reverse(rules.std.begin(), rules.std.end());
    }
  } else {
    size_t colon = how.find(':');
    if (colon == std::string::npos)
      throw tvmbuild::Error("--normalize is imagenet, none or MEANS:DEVIATIONS, not " + how);
    rules.mean = read_numbers(how.substr(0, colon));
    rules.std = read_numbers(how.substr(colon + 1));
  }
}

std::vector<std::string> read_labels(const std::string &path) {
  std::ifstream stream(path);
  if (!stream) throw tvmbuild::Error(path + " cannot be read");
  std::vector<std::string> labels;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    labels.push_back(line);
  }
  return labels;
}

std::string join(const std::vector<double> &numbers) {
  std::string text;
  for (double number : numbers) {
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%s%g", text.empty() ? "" : ", ", number);
    text += digits;
  }
  return text.empty() ? "none" : text;
}

std::string show(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

void run(const tvmbuild::Arguments &arguments) {
  int top = arguments.number("--top", 5);
  std::string how = arguments.text("--normalize");
  tvmbuild::Session session(arguments.plain[0], arguments.number("--threads", 0));
  const tvmbuild::Info &info = session.info();
  if (!info.preprocess) throw tvmbuild::Error(info.model + " does not say how a picture becomes its input");
  tvmbuild::Preprocess rules = *info.preprocess;
  if (!how.empty()) normalize(rules, how);
  std::vector<std::string> labels = arguments.plain.size() < 3 ? info.labels : read_labels(arguments.plain[2]);
  tvmbuild::Picture picture = tvmbuild::read_picture(arguments.plain[1]);

  tvmbuild::Tensor tensor = tvmbuild::preprocess(info, picture, &rules);
  std::vector<tvmbuild::Tensor> inputs;
  inputs.reserve(info.inputs.size());
  for (const tvmbuild::TensorInfo &each : info.inputs) inputs.emplace_back(each);  // zeros
  size_t place = tvmbuild::picture_input(info, rules);
  inputs[place] = tensor;
  std::printf("model: %s for %s, %d of %d tasks tuned, %d threads\n", info.model.c_str(), info.target.c_str(),
              info.covered, info.tasks, session.threads());
  std::printf("picture: %dx%d, %d channels\n", picture.width, picture.height, picture.channels);
  std::printf("input: %s %s %s %s, resize %s\n", tensor.info().name.c_str(), tensor.info().dtype.c_str(),
              show(tensor.info().shape).c_str(), rules.layout.c_str(), rules.resize.c_str());
  std::printf("color: %s\nscale: %.9g\nmean: %s\nstd: %s\n", rules.color.c_str(), rules.scale, join(rules.mean).c_str(),
              join(rules.std).c_str());
  if (tensor.info().dtype == "float32") {
    auto [least, most] = std::minmax_element(tensor.as<float>(), tensor.as<float>() + tensor.info().count());
    std::printf("range: %.6f to %.6f\n", *least, *most);
  }
  bool ranked = false;
  for (const tvmbuild::Tensor &output : session.run(inputs)) {
    const std::vector<int64_t> &shape = output.info().shape;
    std::printf("output: %s %s %s\n", output.info().name.c_str(), output.info().dtype.c_str(), show(shape).c_str());
    if (std::count_if(shape.begin(), shape.end(), [](int64_t n) { return n != 1; }) != 1) continue;
    ranked = true;
    for (const tvmbuild::RankedClass &each : tvmbuild::rank_classes(output, labels, static_cast<size_t>(top)))
      std::printf("%6zu  %.6f  %s\n", each.index, each.probability, each.label.empty() ? "-" : each.label.c_str());
  }
  if (!ranked) throw tvmbuild::Error("no output of " + info.model + " has one score a class");
}

}  // namespace

int main(int count, char **words) {
  return tvmbuild::run_program(USAGE, count, words, [&] {
    run(tvmbuild::read_arguments(count, words, {"--normalize", "--top", "--threads"}, 2, 3));
  });
}
