#include "tvmbuild.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace tvmbuild {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMostBytes = size_t{4} << 30;
constexpr size_t kMostMetadataBytes = size_t{64} << 20;
constexpr double kMostTensorBytes = 1LL << 40;

/* ---------------- SHA-256 (FIPS 180-4) */

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate(uint32_t value, int by) { return (value >> by) | (value << (32 - by)); }

void digest_block(uint32_t state[8], const uint8_t* block) {
  uint32_t words[64];
  for (int i = 0; i < 16; i++) {
    const uint8_t* at = block + 4 * i;
    words[i] = uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
  }
  for (int i = 16; i < 64; i++) {
    uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3)) + words[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10));
  }
  uint32_t s[8];
  std::copy(state, state + 8, s);
  for (int i = 0; i < 64; i++) {
    uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]), majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    uint32_t first = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + choice + kRound[i] + words[i];
    uint32_t second = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;
    std::copy_backward(s, s + 7, s + 8);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

std::string sha256(const std::string& data) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  size_t whole = data.size() / 64;
  for (size_t i = 0; i < whole; i++) digest_block(state, bytes + 64 * i);
  std::string rest = data.substr(64 * whole) + '\x80';
  rest.resize((rest.size() + 8 + 63) / 64 * 64, '\0');
  for (int i = 0; i < 8; i++) rest[rest.size() - 1 - i] = static_cast<char>(uint64_t{data.size()} * 8 >> (8 * i));
  for (size_t i = 0; i < rest.size(); i += 64) digest_block(state, reinterpret_cast<const uint8_t*>(rest.data()) + i);
  std::string digits;
  for (uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
  }
  return digits;
}

/* ---------------- the archive: package/ustar.py's twin */

[[noreturn]] void damaged(const std::string& reason) { throw Error("the package is damaged: " + reason); }

std::optional<size_t> octal(const std::string& field) {
  size_t begin = field.find_first_not_of(std::string(" \0", 2)), end = field.find_last_not_of(std::string(" \0", 2));
  if (begin == std::string::npos) return std::nullopt;
  size_t value = 0;
  for (size_t i = begin; i <= end; i++) {
    if (field[i] < '0' || field[i] > '7') return std::nullopt;
    value = value * 8 + static_cast<size_t>(field[i] - '0'); /* at most 12 digits: no overflow */
  }
  return value;
}

std::string read_file(const std::string& path) {
  struct stat status;
  std::ifstream stream(path, std::ios::binary);
  if (!stream || stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) throw Error(path + " cannot be read");
  if (static_cast<size_t>(status.st_size) > kMostBytes) throw Error(path + " is no package: it is larger than 4 GiB");
  std::string data(static_cast<size_t>(status.st_size), '\0');
  if (!stream.read(data.data(), static_cast<std::streamsize>(data.size()))) throw Error(path + " cannot be read");
  return data;
}

std::map<std::string, std::string> read_members(const std::string& data) {
  const std::set<std::string> expected = {"mod.json", "mod.params", "mod.so"};
  std::map<std::string, std::string> members;
  size_t at = 0;
  for (; at + 512 <= data.size();) {
    std::string header = data.substr(at, 512);
    if (header.find_first_not_of('\0') == std::string::npos) break;
    size_t sum = 0;
    for (size_t i = 0; i < 512; i++) sum += i >= 148 && i < 156 ? ' ' : static_cast<uint8_t>(header[i]);
    std::optional<size_t> size = octal(header.substr(124, 12));
    if (header.substr(257, 5) != "ustar" || octal(header.substr(148, 8)) != sum || !size)
      damaged("no readable archive: a header is damaged");
    std::string name = header.substr(0, 100).c_str();
    bool prefixed = header[262] == '\0' && header[345] != '\0';
    char kind = header[156];
    if (prefixed || !expected.count(name) || members.count(name) || (kind != '0' && kind != '\0'))
      damaged("unexpected member");
    at += 512;
    if (*size > data.size() - at) damaged(name + " is cut short");
    members[name] = data.substr(at, *size);
    at += (*size + 511) / 512 * 512;
  }
  if (members.empty()) damaged("no readable archive: it begins with no file");
  if (at >= data.size()) damaged("no readable archive: it has no end");
  for (const std::string& name : expected) {
    if (!members.count(name)) damaged(name + " missing");
  }
  if (members["mod.json"].size() > kMostMetadataBytes) damaged("mod.json is larger than 64 MiB");
  return members;
}

/* ---------------- JSON */

struct Json {
  enum Kind { kNull, kBool, kNumber, kText, kList, kMap } kind = kNull;
  double number = 0; /* and of bool */
  std::string text;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> entries;
};

class JsonReader {
 public:
  explicit JsonReader(const std::string& text) : text_(text) {}

  Json read_all() {
    Json value = read(0);
    skip();
    if (at_ != text_.size()) fail();
    return value;
  }

 private:
  [[noreturn]] void fail() const { damaged("mod.json is no JSON, at byte " + std::to_string(at_)); }
  void skip() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(const char* word) {
    skip();
    size_t size = std::strlen(word);
    if (text_.compare(at_, size, word) != 0) return false;
    at_ += size;
    return true;
  }

  Json read(int depth) {
    if (depth > 64) fail();
    Json value;
    if (take("{")) {
      value.kind = Json::kMap;
      for (bool first = true; !take("}"); first = false) {
        if ((!first && !take(",")) || !take("\"")) fail();
        std::string key = read_text();
        if (!take(":")) fail();
        value.entries.emplace_back(std::move(key), read(depth + 1));
      }
    } else if (take("[")) {
      value.kind = Json::kList;
      for (bool first = true; !take("]"); first = false) {
        if (!first && !take(",")) fail();
        value.items.push_back(read(depth + 1));
      }
    } else if (take("\"")) {
      value.kind = Json::kText;
      value.text = read_text();
    } else if (take("true")) {
      value.kind = Json::kBool;
      value.number = 1;
    } else if (take("false")) {
      value.kind = Json::kBool;
    } else if (!take("null")) {
      value.kind = Json::kNumber;
      value.number = read_number();
    }
    return value;
  }

  double read_number() {
    size_t end = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
    std::istringstream stream(text_.substr(at_, end - at_)); /* the locale of the process must not matter */
    stream.imbue(std::locale::classic());
    double value = 0;
    if (end == at_ || !(stream >> value) || !std::isfinite(value)) fail();
    at_ = end;
    return value;
  }

  std::string read_text() {
    std::string value;
    while (peek() != '"') {
      if (at_ >= text_.size()) fail();
      char letter = text_[at_++];
      if (letter != '\\') {
        value += letter;
        continue;
      }
      const char *from = "\"\\/bfnrt", *to = "\"\\/\b\f\n\r\t";
      char escaped = at_ < text_.size() ? text_[at_++] : '\0';
      const char* found = escaped == '\0' ? nullptr : std::strchr(from, escaped);
      if (found != nullptr) {
        value += to[found - from];
      } else if (escaped == 'u') {
        append_utf8(value, read_code());
      } else {
        fail();
      }
    }
    at_++;
    return value;
  }

  uint32_t read_unit() {
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
      const char* digits = "0123456789abcdef";
      const char* found =
          at_ < text_.size() ? std::strchr(digits, std::tolower(static_cast<uint8_t>(text_[at_]))) : nullptr;
      if (found == nullptr || *found == '\0') fail();
      unit = unit * 16 + static_cast<uint32_t>(found - digits);
      at_++;
    }
    return unit;
  }

  uint32_t read_code() {
    uint32_t high = read_unit();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || text_.compare(at_, 2, "\\u") != 0) fail();
    at_ += 2;
    uint32_t low = read_unit();
    if (low < 0xDC00 || low > 0xDFFF) fail();
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  static void append_utf8(std::string& text, uint32_t code) {
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xC0, 0xE0, 0xF0};
    text += static_cast<char>(lead[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--) text += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
  }

  const std::string& text_;
  size_t at_ = 0;
};

/* A part of mod.json with its place in it, for messages. */
class Part {
 public:
  Part(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  Part operator[](const std::string& key) const {
    for (const auto& [name, value] : of(Json::kMap, "map").entries) {
      if (name == key) return Part(value, where_.empty() ? key : where_ + "." + key);
    }
    damaged("mod.json is damaged: " + (where_.empty() ? key : where_ + "." + key) + " is missing");
  }
  bool has(const std::string& key) const {
    const auto& all = of(Json::kMap, "map").entries;
    return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.first == key; });
  }
  bool is_null() const { return json_.kind == Json::kNull; }
  bool is_number() const { return json_.kind == Json::kNumber; }
  const std::string& text() const { return of(Json::kText, "text").text; }
  double number() const { return of(Json::kNumber, "number").number; }
  int64_t natural() const {
    double value = number();
    if (value < 0 || value != std::floor(value) || value > kMostTensorBytes) wrong("natural number");
    return static_cast<int64_t>(value);
  }
  std::vector<Part> list() const {
    std::vector<Part> parts;
    const auto& items = of(Json::kList, "list").items;
    for (size_t i = 0; i < items.size(); i++) parts.emplace_back(items[i], where_ + "[" + std::to_string(i) + "]");
    return parts;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> keys;
    for (const auto& each : of(Json::kMap, "map").entries) keys.push_back(each.first);
    return keys;
  }
  [[noreturn]] void wrong(const char* wanted) const { damaged("mod.json is damaged: " + where_ + " is no " + wanted); }

 private:
  const Json& of(Json::Kind kind, const char* wanted) const {
    if (json_.kind != kind) wrong(wanted);
    return json_;
  }
  const Json& json_;
  std::string where_;
};

/* ---------------- mod.json */

struct Attributes {
  std::string mcpu, mtriple;
};

const std::map<std::string, size_t>& dtype_sizes() {
  static const std::map<std::string, size_t> sizes = {{"bool", 1},    {"int8", 1},    {"uint8", 1},  {"int16", 2},
                                                      {"uint16", 2},  {"float16", 2}, {"int32", 4},  {"uint32", 4},
                                                      {"float32", 4}, {"int64", 8},   {"uint64", 8}, {"float64", 8}};
  return sizes;
}

std::vector<TensorInfo> read_tensors(const Part& part) {
  std::vector<TensorInfo> tensors;
  for (const Part& each : part.list()) {
    TensorInfo info{each["name"].text(), {}, each["dtype"].text()};
    if (!dtype_sizes().count(info.dtype)) each["dtype"].wrong("type of numbers that is known");
    double count = 1;
    for (const Part& size : each["shape"].list()) {
      info.shape.push_back(size.natural());
      count *= static_cast<double>(info.shape.back());
    }
    if (count * 8 > kMostTensorBytes) each["shape"].wrong("shape that fits a memory");
    tensors.push_back(std::move(info));
  }
  return tensors;
}

std::string one_of(const Part& part, std::initializer_list<const char*> choices) {
  for (const char* choice : choices) {
    if (part.text() == choice) return choice;
  }
  part.wrong("choice that is known");
}

void check_numbers(const Preprocess& rules) {
  size_t channels = rules.color == "gray" ? 1 : 3;
  for (const std::vector<double>* numbers : {&rules.mean, &rules.std}) {
    if (!numbers->empty() && numbers->size() != channels)
      throw Error("mean and std need one number a channel, " + std::to_string(channels) + " of them");
  }
  if (std::count(rules.std.begin(), rules.std.end(), 0.0)) throw Error("std has a zero");
}

Preprocess read_preprocess(const Part& part) {
  Preprocess rules;
  if (part.has("input") && !part["input"].is_null()) rules.input = part["input"].text();
  if (part.has("resize")) rules.resize = one_of(part["resize"], {"stretch", "letterbox", "crop"});
  if (part.has("color")) rules.color = one_of(part["color"], {"rgb", "bgr", "gray"});
  if (part.has("layout")) rules.layout = one_of(part["layout"], {"NCHW", "NHWC"});
  if (part.has("scale")) rules.scale = part["scale"].number();
  for (const char* key : {"mean", "std"}) {
    if (!part.has(key)) continue;
    for (const Part& each : part[key].list()) (*key == 'm' ? rules.mean : rules.std).push_back(each.number());
  }
  check_numbers(rules);
  return rules;
}

Info read_metadata(const Part& part, Attributes& cpu) {
  if (part["format"].number() != 1)
    throw Error("mod.json has another format than 1: build the package again, or this program");
  Info info;
  info.model = part["model"].text();
  info.entry = part["entry"].text();
  Part target = part["target"];
  info.target = target["name"].text();
  info.kind = target["kind"].text();
  Part attributes = target[info.kind == "llvm" ? "attributes" : "host"];
  if (attributes.has("num-cores") && attributes["num-cores"].is_number())
    info.cores = static_cast<int>(std::clamp<int64_t>(attributes["num-cores"].natural(), 1, 1024));
  if (attributes.has("mcpu")) cpu.mcpu = attributes["mcpu"].text();
  if (attributes.has("mtriple")) cpu.mtriple = attributes["mtriple"].text();
  info.inputs = read_tensors(part["inputs"]);
  info.outputs = read_tensors(part["outputs"]);
  info.lifted = one_of(part["params"], {"lifted", "embedded"}) == "lifted";
  info.tasks = static_cast<int>(part["coverage"]["tasks"].natural());
  info.covered = static_cast<int>(part["coverage"]["covered"].natural());
  if (!part["labels"].is_null()) {
    for (const Part& label : part["labels"].list()) info.labels.push_back(label.text());
  }
  if (!part["preprocess"].is_null()) info.preprocess = read_preprocess(part["preprocess"]);
  return info;
}

struct Package {
  Info info;
  Attributes cpu;
  std::string library, params;
};

Package read_package(const std::string& path) {
  std::map<std::string, std::string> members = read_members(read_file(path));
  Json json = JsonReader(members["mod.json"]).read_all();
  Part metadata(json, "");
  Package package;
  package.info = read_metadata(metadata, package.cpu);
  Part files = metadata["files"];
  std::vector<std::string> listed = files.names();
  std::sort(listed.begin(), listed.end());
  if (listed != std::vector<std::string>{"mod.params", "mod.so"})
    damaged("mod.json lists other files than the archive holds");
  for (const std::string& name : listed) {
    const std::string& data = members[name];
    if (static_cast<size_t>(files[name]["size"].natural()) != data.size() ||
        files[name]["sha256"].text() != sha256(data))
      damaged(name + " is not the file that mod.json describes");
  }
  package.library = std::move(members["mod.so"]);
  package.params = std::move(members["mod.params"]);
  return package;
}

/* ---------------- what runs it here */

std::set<std::string> cpu_flags() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.compare(0, 5, "flags") != 0) continue;
    std::istringstream words(line.substr(std::min(line.find(':'), line.size() - 1) + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

/* Like package/runtime/host.py, but for single features of `mattr`. */
void check_cpu(const Info& info, const Attributes& cpu) {
  if (info.kind != "llvm") throw Error("the package is for " + info.kind + "; this program runs packages for CPUs");
  struct utsname system;
  std::string here = uname(&system) == 0 ? system.machine : "", wanted = cpu.mtriple.substr(0, cpu.mtriple.find('-'));
  if (wanted == "arm64") wanted = "aarch64";
  if (!wanted.empty() && !here.empty() && wanted != here)
    throw Error("the package is built for " + wanted + " (" + info.target + "); this machine is " + here);
  static const std::pair<const char*, const char*> levels[] = {
      {"x86-64-v2", "pni ssse3 sse4_1 sse4_2 popcnt"},
      {"x86-64-v3", "avx avx2 f16c fma bmi1 bmi2 abm movbe"},
      {"x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"}};
  std::set<std::string> present = cpu_flags();
  if (present.empty() || cpu.mcpu.compare(0, 8, "x86-64-v") != 0) return;
  for (const auto& [level, features] : levels) {
    if (cpu.mcpu < level) break;
    std::istringstream words(features);
    for (std::string word; words >> word;) {
      if (!present.count(word)) throw Error("the package is built for " + cpu.mcpu + "; this CPU has no " + word);
    }
  }
}

/* The loader maps what the header says, and a file too short is a crash: package/runtime/elf.py. */
void check_library(const std::string& data) {
  auto number = [&](size_t at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | static_cast<uint8_t>(data[at + i]);
    return value;
  };
  if (data.size() < 64 || data.compare(0, 6,
                                       "\x7f"
                                       "ELF\x02\x01") != 0)
    throw Error("mod.so is no 64-bit ELF file");
  uint64_t begin = number(32, 8), size = number(54, 2), count = number(56, 2);
  if (number(16, 2) != 3 || size != 56) throw Error("mod.so is no shared library");
  if (begin > data.size() || count * size > data.size() - begin) throw Error("mod.so is cut short");
  for (uint64_t i = 0; i < count; i++) {
    uint64_t offset = number(begin + i * size + 8, 8), bytes = number(begin + i * size + 32, 8);
    if (offset > data.size() || bytes > data.size() - offset) throw Error("mod.so is cut short");
  }
}

int available_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

int choose_threads(const Info& info, int threads) {
  int cores = available_cores();
  if (threads == 0) {
    const char* named = std::getenv("TVM_NUM_THREADS");
    threads = named != nullptr ? std::atoi(named) : std::min(info.cores, cores);
  }
  if (threads < 1 || threads > cores)
    throw Error(std::to_string(threads) + " threads were asked for, and there are " + std::to_string(cores) + " cores");
  return threads;
}

/* ---------------- TVM's C interface */

/* A value that TVM returned; lets go of it at its end. */
class Value {
 public:
  Value() {
    std::memset(&any_, 0, sizeof(any_));
    any_.type_index = kTVMFFINone;
  }
  explicit Value(TVMFFIObjectHandle object, int32_t type) : Value() {
    any_.type_index = type;
    any_.v_obj = static_cast<TVMFFIObject*>(object);
  }
  Value(Value&& other) noexcept : Value() { std::swap(any_, other.any_); }
  Value& operator=(Value&& other) noexcept {
    std::swap(any_, other.any_);
    return *this;
  }
  ~Value() {
    if (any_.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(any_.v_obj);
  }
  TVMFFIAny* any() { return &any_; }
  const TVMFFIAny& view() const { return any_; }
  int32_t type() const { return any_.type_index; }
  TVMFFIObjectHandle object() const { return any_.v_obj; }

  std::string text() const {
    if (any_.type_index == kTVMFFISmallStr) return std::string(any_.v_bytes, any_.small_str_len);
    if (any_.type_index != kTVMFFIStr) return "";
    const TVMFFIByteArray* bytes = TVMFFIBytesGetByteArrayPtr(any_.v_obj);
    return std::string(bytes->data, bytes->size);
  }

 private:
  TVMFFIAny any_;
};

TVMFFIAny argument(int32_t type) {
  Value none;
  TVMFFIAny any = none.view();
  any.type_index = type;
  return any;
}
TVMFFIAny argument_of(int64_t value, int32_t type = kTVMFFIInt) {
  TVMFFIAny any = argument(type);
  any.v_int64 = value;
  return any;
}
TVMFFIAny argument_of(const char* text) {
  TVMFFIAny any = argument(kTVMFFIRawStr);
  any.v_c_str = text;
  return any;
}

[[noreturn]] void raise(const std::string& what) {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  std::string reason = "unknown error";
  if (error != nullptr) {
    const TVMFFIByteArray& message = TVMFFIErrorGetCellPtr(error)->message;
    reason.assign(message.data, message.size);
    TVMFFIObjectDecRef(error);
  }
  throw Error(what + ": " + reason.substr(0, reason.find('\n')));
}

Value invoke(const Value& function, std::vector<TVMFFIAny> arguments, const std::string& what) {
  Value result;
  if (TVMFFIFunctionCall(function.object(), arguments.data(), static_cast<int32_t>(arguments.size()), result.any()) !=
      0)
    raise(what);
  return result;
}

Value find_global(const std::string& name) {
  TVMFFIByteArray bytes{name.data(), name.size()};
  TVMFFIObjectHandle found = nullptr;
  if (TVMFFIFunctionGetGlobal(&bytes, &found) != 0) raise("looking for " + name);
  if (found == nullptr) throw Error("this TVM runtime has no function " + name);
  return Value(found, kTVMFFIFunction);
}

Value find_function(const Value& module, const std::string& name) {
  Value found = invoke(find_global("ffi.ModuleGetFunction"),
                       {module.view(), argument_of(name.c_str()), argument_of(int64_t{0}, kTVMFFIBool)}, name);
  if (found.type() != kTVMFFIFunction) throw Error("mod.so has no function " + name);
  return found;
}

/* A file of its own for the library while it is loaded: the loader knows libraries by their files. */
class LibraryFile {
 public:
  explicit LibraryFile(const std::string& content) {
    const char* parent = std::getenv("TMPDIR");
    folder_ = std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/tvmbuild-XXXXXX";
    if (mkdtemp(folder_.data()) == nullptr) throw Error("no temporary folder: set TMPDIR to one that can be written");
    std::ofstream stream(path(), std::ios::binary);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    stream.close();
    if (!stream) {
      remove();
      throw Error(path() + " cannot be written");
    }
  }
  ~LibraryFile() { remove(); }
  LibraryFile(const LibraryFile&) = delete;
  LibraryFile& operator=(const LibraryFile&) = delete;
  std::string path() const { return folder_ + "/mod.so"; }

 private:
  void remove() const {
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }
  std::string folder_;
};

/* The package's own pool instead of the runtime's: package/runtime/pool.py. */
bool use_own_pool(const std::string& path, int threads) {
  const char* wanted = std::getenv("TVMBUILD_THREAD_POOL");
  if (wanted != nullptr && std::strcmp(wanted, "tvm") == 0) return false;
  void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) return false;
  auto slot = static_cast<void**>(dlsym(loaded, "__TVMBackendParallelLaunch"));
  auto start = reinterpret_cast<int (*)(int)>(dlsym(loaded, "tvmbuild_pool_start"));
  void* launch = dlsym(loaded, "tvmbuild_pool_launch");
  dlclose(loaded); /* the runtime still holds it */
  if (slot == nullptr || start == nullptr || launch == nullptr || start(threads) != 0) return false;
  *slot = launch;
  return true;
}

void release(DLManagedTensor* managed) {
  delete static_cast<std::shared_ptr<void>*>(managed->manager_ctx);
  delete[] managed->dl_tensor.shape;
  delete managed;
}

Value share(const Tensor& tensor, const std::shared_ptr<void>& memory) {
  const TensorInfo& info = tensor.info();
  TVMFFIByteArray name{info.dtype.data(), info.dtype.size()};
  auto managed = std::make_unique<DLManagedTensor>();
  std::memset(managed.get(), 0, sizeof(DLManagedTensor));
  if (TVMFFIDataTypeFromString(&name, &managed->dl_tensor.dtype) != 0) raise(info.dtype);
  managed->dl_tensor.data = memory.get();
  managed->dl_tensor.device = DLDevice{kDLCPU, 0};
  managed->dl_tensor.ndim = static_cast<int32_t>(info.shape.size());
  managed->dl_tensor.shape = new int64_t[info.shape.size() + 1];
  std::copy(info.shape.begin(), info.shape.end(), managed->dl_tensor.shape);
  managed->manager_ctx = new std::shared_ptr<void>(memory);
  managed->deleter = release;
  TVMFFIObjectHandle made = nullptr;
  if (TVMFFITensorFromDLPack(managed.get(), kAlignment, 1, &made) != 0) {
    release(managed.release());
    raise("the input " + info.name);
  }
  managed.release(); /* TVM calls its deleter */
  return Value(made, kTVMFFITensor);
}

std::vector<Value> load_params(const std::string& data) {
  TVMFFIByteArray bytes{data.data(), data.size()};
  TVMFFIAny view = argument(kTVMFFIByteArrayPtr);
  view.v_ptr = &bytes;
  Value map = invoke(find_global("runtime.LoadParams"), {view}, "mod.params cannot be read");
  Value next = invoke(find_global("ffi.MapForwardIterFunctor"), {map.view()}, "mod.params");
  int64_t count = invoke(find_global("ffi.MapSize"), {map.view()}, "mod.params").view().v_int64;
  std::map<std::string, Value> sorted;
  for (int64_t i = 0; i < count; i++) {
    std::string name = invoke(next, {argument_of(int64_t{0})}, "mod.params").text();
    sorted[name] = invoke(next, {argument_of(int64_t{1})}, "mod.params");
    invoke(next, {argument_of(int64_t{2})}, "mod.params");
  }
  std::vector<Value> params;
  for (auto& each : sorted) params.push_back(std::move(each.second));
  return params;
}

std::string show(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/* ---------------- pictures: package/preprocess.py and Pillow's twin */

/* One side of Pillow's bilinear resize (Resample.c): a triangle as wide as the reduction, weights in 22 bits. */
Picture resize_along(const Picture& from, int size, bool horizontal) {
  int old = horizontal ? from.width : from.height;
  if (old == size) return from;
  Picture to{horizontal ? size : from.width, horizontal ? from.height : size, from.channels, {}};
  to.pixels.resize(static_cast<size_t>(to.width) * to.height * to.channels);
  constexpr int kBits = 22;
  double scale = static_cast<double>(old) / size, reach = std::max(scale, 1.0);
  size_t channels = from.channels, step = horizontal ? channels : channels * from.width;
  size_t lines = horizontal ? from.height : from.width;
  for (int at = 0; at < size; at++) {
    double center = (at + 0.5) * scale, total = 0;
    int first = std::max(0, static_cast<int>(center - reach + 0.5));
    int last = std::min(old, static_cast<int>(center + reach + 0.5));
    std::vector<double> weights;
    for (int i = first; i < last; i++) {
      double distance = std::fabs((i - center + 0.5) * (1.0 / reach));
      weights.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
      total += weights.back();
    }
    std::vector<int32_t> fixed;
    for (double weight : weights)
      fixed.push_back(static_cast<int32_t>(0.5 + (total != 0 ? weight / total : weight) * (1 << kBits)));
    for (size_t line = 0; line < lines; line++) {
      size_t in = horizontal ? line * from.width * channels : line * channels;
      size_t out = horizontal ? (line * size + at) * channels : (static_cast<size_t>(at) * to.width + line) * channels;
      for (size_t channel = 0; channel < channels; channel++) {
        int32_t sum = 1 << (kBits - 1);
        for (size_t i = 0; i < fixed.size(); i++) sum += from.pixels[in + (first + i) * step + channel] * fixed[i];
        to.pixels[out + channel] = static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
      }
    }
  }
  return to;
}

Picture resize(const Picture& from, int width, int height) {
  return resize_along(resize_along(from, width, true), height, false);
}

Picture convert(const Picture& from, bool gray) {
  if (from.channels == (gray ? 1 : 3)) return from;
  Picture to{from.width, from.height, gray ? 1 : 3, {}};
  for (size_t i = 0; i < static_cast<size_t>(from.width) * from.height; i++) {
    const uint8_t* at = from.pixels.data() + i * from.channels;
    if (gray) {
      to.pixels.push_back(static_cast<uint8_t>((at[0] * 19595 + at[1] * 38470 + at[2] * 7471 + 0x8000) >> 16));
    } else {
      to.pixels.insert(to.pixels.end(), 3, at[0]);
    }
  }
  return to;
}

/* Half of a difference, rounded to even as Python does. */
int half(int difference) { return difference / 2 + (difference % 2 == 1 && difference / 2 % 2 == 1 ? 1 : 0); }

Picture place(const Picture& from, int width, int height, int left, int top) {
  Picture to{width, height, from.channels, {}};
  to.pixels.assign(static_cast<size_t>(width) * height * from.channels, 114);
  for (int y = std::max(0, -top); y < from.height && y + top < height; y++) {
    int begin = std::max(0, -left), end = std::min(from.width, width - left);
    const uint8_t* row = from.pixels.data() + (static_cast<size_t>(y) * from.width + begin) * from.channels;
    std::copy(row, row + static_cast<size_t>(end - begin) * from.channels,
              to.pixels.data() + ((static_cast<size_t>(y) + top) * width + begin + left) * from.channels);
  }
  return to;
}

Picture fit(const Picture& from, int width, int height, const std::string& how) {
  if (how == "stretch") return resize(from, width, height);
  int64_t by_width = static_cast<int64_t>(width) * from.height, by_height = static_cast<int64_t>(height) * from.width;
  bool along_width = (by_width <= by_height) == (how == "letterbox");
  int64_t scaled_width = along_width ? width : std::max<int64_t>(1, by_height / from.height);
  int64_t scaled_height = along_width ? std::max<int64_t>(1, by_width / from.width) : height;
  if (scaled_width * scaled_height > (1 << 28)) throw Error("the picture is too long and thin");
  Picture scaled = resize(from, static_cast<int>(scaled_width), static_cast<int>(scaled_height));
  if (how == "crop") return place(scaled, width, height, -half(scaled.width - width), -half(scaled.height - height));
  return place(scaled, width, height, (width - scaled.width) / 2, (height - scaled.height) / 2);
}

}  // namespace

/* ---------------- what is public */

size_t TensorInfo::count() const {
  size_t count = 1;
  for (int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

size_t TensorInfo::bytes() const {
  auto found = dtype_sizes().find(dtype);
  if (found == dtype_sizes().end()) throw Error(name + " has the unknown type " + dtype);
  return count() * found->second;
}

Tensor::Tensor(TensorInfo info) : info_(std::move(info)) {
  size_t bytes = (info_.bytes() + kAlignment) / kAlignment * kAlignment; /* never 0 */
  void* memory = std::aligned_alloc(kAlignment, bytes);
  if (memory == nullptr) throw Error("no memory for " + info_.name);
  memory_ = std::shared_ptr<void>(memory, std::free);
  std::memset(memory, 0, bytes);
}

static int runtime_threads() {
  return static_cast<int>(invoke(find_global("runtime.NumThreads"), {}, "threads").view().v_int64);
}

struct Session::Impl {
  Info info;
  int threads = 1;
  /* In this order: what comes from the library goes before it. */
  Value library, machine, entry;
  std::vector<Value> params, inputs;
  Value result;

  /* Make the virtual machine of the loaded code. */
  void start() {
    machine = invoke(find_function(library, "vm_load_executable"), {}, "the code cannot be loaded");
    invoke(find_function(machine, "vm_initialization"),
           {argument_of(int64_t{kDLCPU}), argument_of(int64_t{0}), argument_of(int64_t{2})},
           "the code cannot be started");
    entry = find_function(machine, info.entry);
    Value arity = invoke(find_function(machine, "get_function_arity"), {argument_of(info.entry.c_str())},
                         "there is no function " + info.entry);
    if (arity.view().v_int64 != static_cast<int64_t>(info.inputs.size() + params.size()))
      throw Error("the package does not fit together: its code takes another number of inputs and weights");
  }
};

Session::Session(const std::string& path, int threads) : impl_(std::make_unique<Impl>()) {
  Package package = read_package(path);
  check_cpu(package.info, package.cpu);
  check_library(package.library);
  impl_->threads = choose_threads(package.info, threads);
  setenv("TVM_NUM_THREADS", std::to_string(impl_->threads).c_str(), 0); /* of packages without a pool of their own */
  LibraryFile file(package.library);
  std::string name = file.path();
  impl_->library =
      invoke(find_global("ffi.ModuleLoadFromFile"), {argument_of(name.c_str())}, "mod.so cannot be loaded");
  if (!use_own_pool(name, impl_->threads)) impl_->threads = runtime_threads();
  impl_->info = std::move(package.info);
  if (impl_->info.lifted) impl_->params = load_params(package.params);
  impl_->start();
}

Session::Session(const LinkedModel& model) : impl_(std::make_unique<Impl>()) {
  Json json = JsonReader(model.mod_json).read_all();
  Attributes cpu;
  impl_->info = read_metadata(Part(json, ""), cpu);
  check_cpu(impl_->info, cpu);
  if (impl_->info.lifted)
    throw Error("the weights of a linked model must be in its code: `params` of mod.json is lifted");
  impl_->library =
      invoke(find_global("ffi.SystemLib"), {argument_of(model.prefix.c_str())}, "the linked model cannot be found");
  impl_->threads = runtime_threads();
  impl_->start();
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Info& Session::info() const { return impl_->info; }
int Session::threads() const { return impl_->threads; }

void Session::bind(const std::vector<Tensor>& inputs) {
  const std::vector<TensorInfo>& wanted = impl_->info.inputs;
  if (inputs.size() != wanted.size())
    throw Error(impl_->info.model + " takes " + std::to_string(wanted.size()) + " inputs, got " +
                std::to_string(inputs.size()));
  std::vector<Value> shared;
  for (size_t i = 0; i < wanted.size(); i++) {
    const TensorInfo& got = inputs[i].info();
    if (got.shape != wanted[i].shape || got.dtype != wanted[i].dtype)
      throw Error("the input " + wanted[i].name + " of " + impl_->info.model + " is " + wanted[i].dtype + " " +
                  show(wanted[i].shape) + ", got " + got.dtype + " " + show(got.shape));
    shared.push_back(share(inputs[i], inputs[i].memory_));
  }
  impl_->inputs = std::move(shared);
}

void Session::call() {
  if (impl_->inputs.size() != impl_->info.inputs.size()) throw Error("no inputs are bound");
  std::vector<TVMFFIAny> arguments;
  for (const Value& each : impl_->inputs) arguments.push_back(each.view());
  for (const Value& each : impl_->params) arguments.push_back(each.view());
  impl_->result = Value(); /* its memory serves again */
  impl_->result = invoke(impl_->entry, std::move(arguments), impl_->info.model);
}

std::vector<Tensor> Session::outputs() const {
  const std::vector<TensorInfo>& wanted = impl_->info.outputs;
  std::vector<Tensor> outputs;
  Value get = find_global("ffi.ArrayGetItem");
  for (size_t i = 0; i < wanted.size(); i++) {
    Value item;
    if (impl_->result.type() == kTVMFFIArray)
      item = invoke(get, {impl_->result.view(), argument_of(static_cast<int64_t>(i))}, wanted[i].name);
    const Value& value = impl_->result.type() == kTVMFFIArray ? item : impl_->result;
    if (value.type() != kTVMFFITensor) throw Error("there is no output " + wanted[i].name);
    const DLTensor* tensor = TVMFFITensorGetDLTensorPtr(value.object());
    std::vector<int64_t> shape(tensor->shape, tensor->shape + tensor->ndim);
    Tensor copy(wanted[i]);
    size_t bytes = (size_t{tensor->dtype.bits} * tensor->dtype.lanes + 7) / 8 * copy.info().count();
    if (shape != wanted[i].shape || bytes != wanted[i].bytes())
      throw Error("the output " + wanted[i].name + " is not what mod.json says: " + show(shape));
    std::memcpy(copy.data(), static_cast<const char*>(tensor->data) + tensor->byte_offset, bytes);
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

std::vector<Tensor> Session::run(const std::vector<Tensor>& inputs) {
  bind(inputs);
  call();
  return outputs();
}

Info read_info(const std::string& package) { return read_package(package).info; }

size_t picture_input(const Info& info, const Preprocess& rules) {
  for (size_t i = 0; i < info.inputs.size(); i++) {
    if (info.inputs[i].name == rules.input || (rules.input.empty() && info.inputs.size() == 1)) return i;
  }
  throw Error(info.model + " does not say which of its inputs is a picture");
}

Tensor preprocess(const Info& info, const Picture& picture, const Preprocess* given) {
  if (given == nullptr && !info.preprocess) throw Error(info.model + " does not say how a picture becomes its input");
  const Preprocess& rules = given != nullptr ? *given : *info.preprocess;
  check_numbers(rules);
  if (picture.width < 1 || picture.height < 1 || (picture.channels != 1 && picture.channels != 3) ||
      picture.pixels.size() != static_cast<size_t>(picture.width) * picture.height * picture.channels)
    throw Error("the picture is empty, or its pixels are not as many as its sides say");
  const TensorInfo& tensor = info.inputs[picture_input(info, rules)];
  std::vector<int64_t> shape = tensor.shape;
  if (shape.size() == 4 && shape[0] == 1) shape.erase(shape.begin());
  bool gray = rules.color == "gray", planes = rules.layout == "NCHW";
  int64_t channels = gray ? 1 : 3;
  bool fits = shape.size() == 3 && shape[planes ? 0 : 2] == channels;
  for (int64_t side : shape) fits = fits && side >= 1 && side <= 1 << 14;
  if (!fits)
    throw Error("the input " + tensor.name + " of " + info.model + " is " + show(tensor.shape) + ": no " + rules.color +
                " picture in " + rules.layout);
  int height = static_cast<int>(shape[planes ? 1 : 0]), width = static_cast<int>(shape[planes ? 2 : 1]);
  Picture ready = fit(convert(picture, gray), width, height, rules.resize);
  Tensor result(tensor);
  size_t area = static_cast<size_t>(width) * height;
  for (int64_t channel = 0; channel < channels; channel++) {
    float table[256]; /* rounded after each operation, as a framework's float32 tensors are */
    for (int byte = 0; byte < 256; byte++) {
      float value = static_cast<float>(byte * rules.scale);
      if (!rules.mean.empty()) value = value - static_cast<float>(rules.mean[channel]);
      if (!rules.std.empty()) value = value / static_cast<float>(rules.std[channel]);
      table[byte] = value;
    }
    int64_t source = rules.color == "bgr" ? 2 - channel : channel;
    for (size_t i = 0; i < area; i++) {
      float value = table[ready.pixels[i * channels + source]];
      size_t at = planes ? channel * area + i : i * channels + channel;
      if (tensor.dtype == "float32") {
        result.as<float>()[at] = value;
      } else if (tensor.dtype == "uint8") {
        result.as<uint8_t>()[at] = static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0f, 255.0f));
      } else {
        throw Error("pictures become float32 or uint8 here; " + tensor.name + " is " + tensor.dtype);
      }
    }
  }
  return result;
}

std::vector<RankedClass> rank_classes(const Tensor& scores, const std::vector<std::string>& labels, size_t count) {
  const TensorInfo& info = scores.info();
  if (info.dtype != "float32" ||
      std::count_if(info.shape.begin(), info.shape.end(), [](int64_t n) { return n != 1; }) != 1)
    throw Error("the output " + info.name + " is " + info.dtype + " " + show(info.shape) + ": not one score a class");
  const float* values = scores.as<float>();
  size_t size = info.count();
  if (size == 0) return {};
  auto [least, most] = std::minmax_element(values, values + size);
  bool logits = *least < 0 || *most > 1;
  double total = 0;
  for (size_t i = 0; i < size; i++) total += logits ? std::exp(static_cast<double>(values[i]) - *most) : 0;
  std::vector<size_t> order(size);
  for (size_t i = 0; i < size; i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
  std::vector<RankedClass> best;
  for (size_t i = 0; i < std::min(count, size); i++) {
    double value = values[order[i]];
    double probability = logits ? std::exp(value - *most) / total : value;
    best.push_back({order[i], probability, labels.size() == size ? labels[order[i]] : ""});
  }
  return best;
}

}  // namespace tvmbuild
