// The programs' common code: arguments, and one place where errors become messages and exit codes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tvmbuild {

// A usage error: the usage is printed too.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Arguments {
  std::vector<std::string> plain;
  std::map<std::string, std::string> options;
  std::map<std::string, std::vector<std::string>> repeated;  // all values of options that may be given several times

  std::string text(const std::string &option) const {
    auto found = options.find(option);
    return found == options.end() ? "" : found->second;
  }
  int number(const std::string &option, int otherwise) const {
    if (!options.count(option)) return otherwise;
    std::string digits = text(option);
    char *end = nullptr;
    long value = std::strtol(digits.c_str(), &end, 10);
    if (digits.empty() || *end != '\0' || value < 1 || value > 1 << 20)
      throw UsageError(option + " needs a number over 0, not " + digits);
    return static_cast<int>(value);
  }
  // Read T=64 or H=320,W=640 as the values of letters. Without the option: none.
  std::map<std::string, int64_t> size(const std::string &option) const {
    std::map<std::string, int64_t> values;
    std::string rest = text(option);
    bool has_more = !rest.empty();  // a comma at the end stands before an empty part, which is refused
    while (has_more) {
      std::string part = rest.substr(0, rest.find(','));
      has_more = part.size() < rest.size();
      rest.erase(0, part.size() + 1);
      size_t equals = part.find('=');
      std::string digits = equals == std::string::npos ? "" : part.substr(equals + 1);
      bool is_number =
          !digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos;
      if (equals == 0 || !is_number || !values.emplace(part.substr(0, equals), std::stoll(digits)).second)
        throw UsageError(option + " needs T=64 or H=320,W=640, not " + text(option));
    }
    return values;
  }
};

// `known` lists the options. Each has a value.
inline Arguments read_arguments(int count, char **words, const std::vector<std::string> &known, size_t least,
                                size_t most) {
  Arguments arguments;
  for (int i = 1; i < count; i++) {
    std::string word = words[i];
    if (word.compare(0, 2, "--") != 0) {
      arguments.plain.push_back(word);
      continue;
    }
    bool found = false;
    for (const std::string &each : known) found = found || each == word;
    if (!found) throw UsageError("there is no option " + word);
    if (++i == count) throw UsageError(word + " needs a value");
    arguments.options[word] = words[i];
    arguments.repeated[word].push_back(words[i]);
  }
  if (arguments.plain.size() < least || arguments.plain.size() > most)
    throw UsageError(std::to_string(arguments.plain.size()) + " arguments that are not options");
  return arguments;
}

// The exit code of main(): 0; 1 with `error: …`; 2 also with the usage.
template <typename Run>
int run_program(const char *usage, int count, char **words, Run run) {
  try {
    if (count == 2 && std::string(words[1]) == "--help") {
      std::printf("%s", usage);
    } else {
      run();
    }
    return 0;
  } catch (const UsageError &error) {
    std::fprintf(stderr, "error: %s\n%s", error.what(), usage);
    return 2;
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "error: there is too little memory\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}

}  // namespace tvmbuild
