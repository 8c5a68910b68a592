#include "tvmbuild.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "device.h"
#include "find_device.h"
#include "third_party/nlohmann/json.hpp"

namespace tvmbuild {

using namespace detail;

namespace {

constexpr int64_t kPooledAllocator = 2; /* TVM's number */
constexpr uint64_t kMostBytes = uint64_t{4} << 30;
constexpr size_t kMostMetadataBytes = size_t{64} << 20;
constexpr int kMostDepth = 64; /* of mod.json */
constexpr uint64_t kMostTensorBytes = uint64_t{1} << 40;
constexpr size_t kMostPixels = size_t{1} << 28;

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

/* Becomes an Error where the package's name is known. */
class Damage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void damaged(const std::string& reason) { throw Damage(reason); }

std::optional<uint64_t> octal(const std::string& field) {
  size_t begin = field.find_first_not_of(std::string(" \0", 2)), end = field.find_last_not_of(std::string(" \0", 2));
  if (begin == std::string::npos) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = begin; i <= end; i++) {
    if (field[i] < '0' || field[i] > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(field[i] - '0'); /* at most 12 digits: no overflow */
  }
  return value;
}

std::string read_file(const std::string& path) {
  std::error_code reason; /* first: opening a pipe would wait for a writer */
  uint64_t size = std::filesystem::file_size(path, reason);
  if (reason) throw Error(path + " cannot be read: " + reason.message());
  if (size > kMostBytes) throw Error(path + " is no package: it is larger than 4 GiB");
  std::ifstream stream(path, std::ios::binary);
  std::string data(static_cast<size_t>(size), '\0');
  if (!stream.read(data.data(), static_cast<std::streamsize>(data.size()))) throw Error(path + " cannot be read");
  return data;
}

std::map<std::string, std::string> read_members(const std::string& data) {
  const std::set<std::string> expected = {"mod.json", "mod.params", "mod.so"};
  std::map<std::string, std::string> members;
  size_t at = 0;
  while (at + 512 <= data.size()) {
    std::string header = data.substr(at, 512);
    if (header.find_first_not_of('\0') == std::string::npos) break;
    size_t sum = 0;
    for (size_t i = 0; i < 512; i++) sum += i >= 148 && i < 156 ? ' ' : static_cast<uint8_t>(header[i]);
    std::optional<uint64_t> size = octal(header.substr(124, 12));
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

/* ---------------- mod.json: package/metadata_check.py's twin */

nlohmann::json read_json(const std::string& text) {
  auto check_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMostDepth) damaged("mod.json is no JSON of ours: it is nested too deep");
    return true;
  };
  nlohmann::json json = nlohmann::json::parse(text, check_depth, false);
  if (json.is_discarded()) damaged("mod.json is no JSON");
  return json;
}

/* A part of it with its place, for messages. */
class Part {
 public:
  explicit Part(const nlohmann::json& json, std::string where = "") : json_(json), where_(std::move(where)) {}

  Part operator[](const std::string& key) const {
    if (!has(key)) damaged("mod.json is damaged: " + place(key) + " is missing");
    return Part(json_.at(key), place(key));
  }
  bool has(const std::string& key) const { return expect(json_.is_object(), "map").contains(key); }
  bool is_null() const { return json_.is_null(); }
  bool is_number() const { return json_.is_number(); }
  bool is_text() const { return json_.is_string(); }
  std::string text() const { return expect(is_text(), "text").get<std::string>(); }
  double number() const { return expect(is_number(), "number").get<double>(); }
  uint64_t natural() const {
    auto value = expect(json_.is_number_unsigned(), "natural number").get<uint64_t>();
    expect(value <= kMostTensorBytes, "sensible number");
    return value;
  }
  std::vector<Part> list() const {
    std::vector<Part> parts;
    for (const nlohmann::json& item : expect(json_.is_array(), "list"))
      parts.emplace_back(item, where_ + "[" + std::to_string(parts.size()) + "]");
    return parts;
  }
  std::set<std::string> keys() const {
    std::set<std::string> keys;
    for (const auto& item : expect(json_.is_object(), "map").items()) keys.insert(item.key());
    return keys;
  }
  const nlohmann::json& expect(bool true_of_it, const char* wanted) const {
    if (!true_of_it) damaged("mod.json is damaged: " + (where_.empty() ? "all of it" : where_) + " is no " + wanted);
    return json_;
  }

 private:
  std::string place(const std::string& key) const { return where_.empty() ? key : where_ + "." + key; }
  const nlohmann::json& json_;
  std::string where_;
};

/* What the code needs of a CPU, and of a card: its architecture, where the kernels are for one alone. */
struct Attributes {
  std::string mcpu, mtriple, arch;
  std::vector<std::string> features; /* `+name` or `-name` */
};

const std::map<std::string, size_t>& dtype_sizes() {
  static const std::map<std::string, size_t> sizes = {
      {"bool", 1},     {"int8", 1},  {"uint8", 1},  {"int16", 2},   {"uint16", 2}, {"float16", 2}, {"bfloat16", 2},
      {"int32", 4},    {"uint32", 4}, {"float32", 4}, {"int64", 8}, {"uint64", 8}, {"float64", 8}};
  return sizes;
}

std::vector<TensorInfo> read_tensors(const Part& part) {
  std::vector<TensorInfo> tensors;
  std::set<std::string> names;
  for (const Part& each : part.list()) {
    TensorInfo info{each["name"].text(), {}, each["dtype"].text()};
    each["name"].expect(names.insert(info.name).second, "name of its own");
    each["dtype"].expect(dtype_sizes().count(info.dtype), "type of numbers that is known");
    double bytes = static_cast<double>(dtype_sizes().at(info.dtype));
    for (const Part& size : each["shape"].list()) {
      info.shape.push_back(static_cast<int64_t>(size.natural()));
      bytes *= static_cast<double>(info.shape.back());
    }
    each["shape"].expect(bytes <= static_cast<double>(kMostTensorBytes), "shape that fits a memory");
    tensors.push_back(std::move(info));
  }
  return tensors;
}

std::string one_of(const Part& part, const std::set<std::string>& choices) {
  part.expect(choices.count(part.text()), "choice that is known");
  return part.text();
}

/* Empty: none. */
std::string find_fault(const Preprocess& rules) {
  size_t channels = rules.color == "gray" ? 1 : 3;
  for (const std::vector<double>* numbers : {&rules.mean, &rules.std}) {
    if (!numbers->empty() && numbers->size() != channels)
      return "mean and std need one number a channel, " + std::to_string(channels) + " of them";
  }
  return std::count(rules.std.begin(), rules.std.end(), 0.0) ? "std has a zero" : "";
}

Preprocess read_preprocess(const Part& part) {
  Preprocess rules;
  for (const std::string& key : part.keys())
    part[key].expect(std::set<std::string>{"input", "resize", "color", "layout", "scale", "mean", "std"}.count(key),
                     "rule that is known");
  if (part.has("input") && !part["input"].is_null()) rules.input = part["input"].text();
  if (part.has("resize")) rules.resize = one_of(part["resize"], {"stretch", "letterbox", "crop"});
  if (part.has("color")) rules.color = one_of(part["color"], {"rgb", "bgr", "gray"});
  if (part.has("layout")) rules.layout = one_of(part["layout"], {"NCHW", "NHWC"});
  if (part.has("scale")) rules.scale = part["scale"].number();
  for (const char* key : {"mean", "std"}) {
    if (!part.has(key)) continue;
    for (const Part& each : part[key].list()) (*key == 'm' ? rules.mean : rules.std).push_back(each.number());
  }
  std::string fault = find_fault(rules);
  if (!fault.empty()) damaged("mod.json is damaged: preprocess: " + fault);
  return rules;
}

/* A list, or one text with commas. */
std::vector<std::string> read_features(const Part& part) {
  std::vector<std::string> features;
  if (part.is_text()) {
    std::istringstream items(part.text());
    for (std::string item; std::getline(items, item, ',');) features.push_back(item);
  } else {
    for (const Part& item : part.list()) features.push_back(item.text());
  }
  return features;
}

Info read_metadata(const Part& part, Attributes& needs) {
  if (part["format"].number() != 1)
    damaged("mod.json has another format than 1: build the package again, or this program");
  Info info;
  info.model = part["model"].text();
  info.entry = part["entry"].text();
  Part target = part["target"];
  info.target = target["name"].text();
  info.kind = target["kind"].text();
  Part attributes = target[info.kind == "llvm" ? "attributes" : "host"];
  if (attributes.has("num-cores") && attributes["num-cores"].is_number())
    info.cores = static_cast<int>(std::clamp<uint64_t>(attributes["num-cores"].natural(), 1, 1024));
  if (attributes.has("mcpu")) needs.mcpu = attributes["mcpu"].text();
  if (attributes.has("mtriple")) needs.mtriple = attributes["mtriple"].text();
  if (attributes.has("mattr")) needs.features = read_features(attributes["mattr"]);
  if (info.kind == "cuda" && target["attributes"].has("arch")) needs.arch = target["attributes"]["arch"].text();
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
  Attributes needs;
  std::string library, params;
};

Package read_archive(const std::string& data) {
  std::map<std::string, std::string> members = read_members(data);
  nlohmann::json json = read_json(members["mod.json"]);
  Part metadata(json);
  Package package;
  package.info = read_metadata(metadata, package.needs);
  Part files = metadata["files"];
  if (files.keys() != std::set<std::string>{"mod.params", "mod.so"})
    damaged("mod.json lists other files than the archive holds");
  for (const std::string& name : files.keys()) {
    const std::string& data = members[name];
    if (files[name]["size"].natural() != data.size() || files[name]["sha256"].text() != sha256(data))
      damaged(name + " is not the file that mod.json describes");
  }
  package.library = std::move(members["mod.so"]);
  package.params = std::move(members["mod.params"]);
  return package;
}

Package read_package(const std::string& path) try {
  return read_archive(read_file(path));
} catch (const Damage& damage) {
  throw Error(path + " is damaged: " + damage.what());
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

/* The twin of cpu_features.py: LLVM's names of instruction sets, with the kernel's where that is another. */
const std::map<std::string, std::string>& x86_features() {
  static const std::map<std::string, std::string> features = [] {
    std::istringstream words(
        "sse3=pni ssse3 sse4.1=sse4_1 sse4.2=sse4_2 popcnt avx avx2 f16c fma bmi=bmi1 bmi2 lzcnt=abm movbe aes "
        "pclmul=pclmulqdq vaes vpclmulqdq gfni sha=sha_ni avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma "
        "avx512vbmi avx512vbmi2=avx512_vbmi2 avx512vnni=avx512_vnni avx512bitalg=avx512_bitalg "
        "avx512vpopcntdq=avx512_vpopcntdq avx512bf16=avx512_bf16 avx512fp16=avx512_fp16 "
        "avx512vp2intersect=avx512_vp2intersect avxvnni=avx_vnni avxvnniint8=avx_vnni_int8 "
        "avxvnniint16=avx_vnni_int16 avxifma=avx_ifma avxneconvert=avx_ne_convert amx-tile=amx_tile "
        "amx-int8=amx_int8 amx-bf16=amx_bf16 amx-fp16=amx_fp16 sse4a xop fma4 tbm");
    std::map<std::string, std::string> names;
    for (std::string word; words >> word;) {
      size_t equals = word.find('=');
      names[word.substr(0, equals)] = equals == std::string::npos ? word : word.substr(equals + 1);
    }
    return names;
  }();
  return features;
}

/* What the CPU must have, by the kernel's names; what another `mcpu` needs, only the compiler knows. */
std::set<std::string> required_features(const Attributes& cpu) {
  static const std::pair<const char*, const char*> levels[] = {
      {"x86-64-v2", "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"},
      {"x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe"},
      {"x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"}};
  std::set<std::string> needed;
  for (const auto& [level, features] : levels) {
    if (cpu.mcpu.compare(0, 8, "x86-64-v") != 0 || cpu.mcpu < level) break;
    std::istringstream words(features);
    for (std::string word; words >> word;) needed.insert(word);
  }
  for (const std::string& feature : cpu.features) {
    auto known = x86_features().find(feature.substr(std::min<size_t>(1, feature.size())));
    if (known == x86_features().end()) continue; /* a hint for the compiler, say */
    if (feature[0] == '+') needed.insert(known->second);
    if (feature[0] == '-') needed.erase(known->second);
  }
  return needed;
}

/* Like package/runtime/host.py. */
void check_cpu(const Info& info, const Attributes& cpu) {
  struct utsname system;
  std::string here = uname(&system) == 0 ? system.machine : "", wanted = cpu.mtriple.substr(0, cpu.mtriple.find('-'));
  if (wanted == "arm64") wanted = "aarch64";
  if (!wanted.empty() && !here.empty() && wanted != here)
    throw Error("the package is built for " + wanted + " (" + info.target + "); this machine is " + here);
  std::set<std::string> present = here == "x86_64" ? cpu_flags() : std::set<std::string>();
  if (present.empty()) return;
  for (const std::string& feature : required_features(cpu)) {
    if (!present.count(feature))
      throw Error("the package is built for " + (cpu.mcpu.empty() ? info.target : cpu.mcpu) + "; this CPU has no " +
                  feature);
  }
}

/* The loader maps what the header says, and a file too short is a crash: package/runtime/elf_header.py. */
void check_library(const std::string& data) {
  auto number = [&](size_t at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | static_cast<uint8_t>(data[at + i]);
    return value;
  };
  static const std::string magic = "\x7f" "ELF\x02\x01"; /* 64 bits, little-endian */
  if (data.size() < 64 || data.compare(0, magic.size(), magic) != 0) throw Error("mod.so is no 64-bit ELF file");
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

/* ---------------- mod.so and its threads */

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

int runtime_threads() {
  return static_cast<int>(invoke(find_global("runtime.NumThreads"), {}, "threads").view().v_int64);
}

/* The package's own pool instead of the runtime's: package/runtime/thread_pool.py. */
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
  if (static_cast<size_t>(size) > kMostPixels / (horizontal ? from.height : from.width))
    throw Error("the picture is too long and thin");
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
  if (static_cast<size_t>(scaled_width * scaled_height) > kMostPixels) throw Error("the picture is too long and thin");
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

Tensor::Tensor(std::string name, DLManagedTensor* given) {
  const DLTensor& tensor = given->dl_tensor;
  TVMFFIObjectHandle made = nullptr;
  if (tensor.byte_offset != 0 || TVMFFITensorFromDLPack(given, kAlignment, 1, &made) != 0) {
    std::string where = name_of(tensor.device);
    if (given->deleter != nullptr) given->deleter(given);
    throw Error(name + " on " + where + " is not contiguous and aligned: pass a copy of it");
  }
  hold(std::move(name), made);
}

void Tensor::hold(std::string name, void* object) {
  const DLTensor* tensor = TVMFFITensorGetDLTensorPtr(object);
  object_ = std::shared_ptr<void>(object, [device = tensor->device](void* held) {
    DeviceUse use(device);
    TVMFFIObjectDecRef(held);
  });
  memory_ = std::shared_ptr<void>(object_, tensor->data);
  on_host_ = is_host(tensor->device);
  info_ = describe(object, name);
}

DLManagedTensor* Tensor::to_dlpack() const {
  Value value = object_ ? Value::retain(object_.get(), kTVMFFITensor) : share(info_, memory_);
  DLManagedTensor* made = nullptr;
  if (TVMFFITensorToDLPack(value.object(), &made) != 0) throw_raised(info_.name);
  return made;
}

Tensor Tensor::to_host() const {
  if (on_host_) return *this;
  Tensor copy(info_);
  Value from = Value::retain(object_.get(), kTVMFFITensor);
  DeviceUse use(TVMFFITensorGetDLTensorPtr(from.object())->device);
  copy_to_host(from, copy.data(), info_.bytes(), info_.name);
  return copy;
}

struct Session::Impl {
  Info info;
  int threads = 1;
  DLDevice device{kDLCPU, 0};
  bool called = false;
  Value library, machine, entry;
  std::vector<Value> params;
  std::vector<Value> inputs;  /* as they were bound */
  std::vector<Value> copies;  /* the session's memory on the device, for inputs that are bound in the host's */
  std::vector<bool> copied;   /* which of the bound inputs they stand for */
  Value result;

  ~Impl() {
    DeviceUse use(device);
    result = Value(); /* what comes from the library goes before it */
    for (std::vector<Value>* each : {&copies, &inputs, &params}) each->clear();
    for (Value* each : {&entry, &machine, &library}) *each = Value();
  }

  bool on_gpu() const { return !is_host(device); }

  Value copy_here(const Value& from, const TensorInfo& to) {
    Value copy = allocate(to, device);
    copy_to_device(from, copy, to.name);
    return copy;
  }

  Value output(size_t index) const {
    const TensorInfo& wanted = info.outputs[index];
    bool single = result.type() == kTVMFFITensor;
    if (!single && result.type() != kTVMFFIArray) throw Error("there is no output " + wanted.name);
    Value value = single ? Value::retain(result.object(), kTVMFFITensor)
                         : invoke(find_global("ffi.ArrayGetItem"),
                                  {result.view(), argument_of(static_cast<int64_t>(index))}, wanted.name);
    if (value.type() != kTVMFFITensor) throw Error("there is no output " + wanted.name);
    TensorInfo got = describe(value.object(), wanted.name);
    if (got.shape != wanted.shape || got.dtype != wanted.dtype)
      throw Error("the output " + wanted.name + " is not what mod.json says: " + got.dtype + " " + show(got.shape));
    return value;
  }

  /* Make the virtual machine of the loaded code. */
  void start() {
    machine = invoke(find_function(library, "vm_load_executable"), {}, "the code cannot be loaded");
    std::vector<TVMFFIAny> devices;
    for (DLDevice each : {device, DLDevice{kDLCPU, 0}}) {
      if (!devices.empty() && !on_gpu()) break; /* the host's own code runs on the CPU */
      for (int64_t number : {int64_t{each.device_type}, int64_t{each.device_id}, kPooledAllocator})
        devices.push_back(argument_of(number));
    }
    invoke(find_function(machine, "vm_initialization"), std::move(devices), "the code cannot be started");
    entry = find_function(machine, info.entry);
    Value arity = invoke(find_function(machine, "get_function_arity"), {argument_of(info.entry.c_str())},
                         "there is no function " + info.entry);
    if (arity.view().v_int64 != static_cast<int64_t>(info.inputs.size() + params.size()))
      throw Error("the package does not fit together: its code takes another number of inputs and weights");
  }
};

Session::Session(const std::string& path, int threads) : impl_(std::make_unique<Impl>()) {
  Package package = read_package(path);
  check_cpu(package.info, package.needs);
  check_library(package.library);
  impl_->device = find_device(package.info.kind);
  if (package.info.kind == "cuda") check_card(package.needs.arch, package.info.target, impl_->device);
  impl_->threads = choose_threads(package.info, threads);
  LibraryFile file(package.library);
  std::string name = file.path();
  impl_->library =
      invoke(find_global("ffi.ModuleLoadFromFile"), {argument_of(name.c_str())}, "mod.so cannot be loaded");
  if (!use_own_pool(name, impl_->threads)) {
    setenv("TVM_NUM_THREADS", std::to_string(impl_->threads).c_str(), 0); /* until a pool is made, it may be said */
    impl_->threads = runtime_threads();
  }
  impl_->info = std::move(package.info);
  if (impl_->info.lifted) impl_->params = load_params(package.params);
  DeviceUse use(impl_->device);
  if (impl_->on_gpu()) {
    for (Value& each : impl_->params) each = impl_->copy_here(each, describe(each.object(), "mod.params"));
  }
  impl_->start();
}

Session::Session(const LinkedModel& model) try : impl_(std::make_unique<Impl>()) {
  nlohmann::json json = read_json(model.mod_json);
  Attributes needs;
  impl_->info = read_metadata(Part(json), needs);
  check_cpu(impl_->info, needs);
  if (impl_->info.kind != "llvm") throw Error("a linked model is for CPUs; this one is for " + impl_->info.kind);
  if (impl_->info.lifted)
    throw Error("the weights of a linked model must be in its code: `params` of mod.json is lifted");
  impl_->library =
      invoke(find_global("ffi.SystemLib"), {argument_of(model.prefix.c_str())}, "the linked model cannot be found");
  impl_->threads = runtime_threads();
  impl_->start();
} catch (const Damage& damage) {
  throw Error("the linked model is damaged: " + std::string(damage.what()));
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
  std::vector<Value> given;
  std::vector<bool> copied;
  for (size_t i = 0; i < wanted.size(); i++) {
    const TensorInfo& got = inputs[i].info();
    if (got.shape != wanted[i].shape || got.dtype != wanted[i].dtype)
      throw Error("the input " + wanted[i].name + " of " + impl_->info.model + " is " + wanted[i].dtype + " " +
                  show(wanted[i].shape) + ", got " + got.dtype + " " + show(got.shape));
    given.push_back(inputs[i].object_ ? Value::retain(inputs[i].object_.get(), kTVMFFITensor)
                                      : share(got, inputs[i].memory_));
    DLDevice there = TVMFFITensorGetDLTensorPtr(given[i].object())->device;
    copied.push_back(is_host(there) && impl_->on_gpu());
    if (!copied[i] && !is_same(there, impl_->device) && !(is_host(there) && is_host(impl_->device)))
      throw Error("the input " + wanted[i].name + " is on " + name_of(there) + "; the package runs on " +
                  name_of(impl_->device));
  }
  DeviceUse use(impl_->device);
  impl_->copies.resize(wanted.size());
  for (size_t i = 0; i < wanted.size(); i++) {
    if (copied[i] && impl_->copies[i].type() != kTVMFFITensor) impl_->copies[i] = allocate(wanted[i], impl_->device);
  }
  impl_->inputs = std::move(given);
  impl_->copied = std::move(copied);
}

void Session::call() {
  if (impl_->inputs.size() != impl_->info.inputs.size()) throw Error("no inputs are bound");
  DeviceUse use(impl_->device, !impl_->called);
  std::vector<TVMFFIAny> arguments;
  for (size_t i = 0; i < impl_->inputs.size(); i++) {
    if (impl_->copied[i]) copy_to_device(impl_->inputs[i], impl_->copies[i], impl_->info.inputs[i].name);
    arguments.push_back((impl_->copied[i] ? impl_->copies[i] : impl_->inputs[i]).view());
  }
  for (const Value& each : impl_->params) arguments.push_back(each.view());
  impl_->result = Value(); /* its memory serves again */
  impl_->result = invoke(impl_->entry, std::move(arguments), impl_->info.model);
  wait_for(impl_->device, impl_->info.model);
  impl_->called = true;
}

std::vector<Tensor> Session::outputs() const {
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : impl_->info.outputs) outputs.emplace_back(info);
  copy_outputs(outputs);
  return outputs;
}

void Session::copy_outputs(const std::vector<Tensor>& to) const {
  const std::vector<TensorInfo>& wanted = impl_->info.outputs;
  if (to.size() != wanted.size())
    throw Error(impl_->info.model + " has " + std::to_string(wanted.size()) + " outputs, got room for " +
                std::to_string(to.size()));
  DeviceUse use(impl_->device);
  for (size_t i = 0; i < wanted.size(); i++) {
    if (!to[i].on_host() || to[i].info().shape != wanted[i].shape || to[i].info().dtype != wanted[i].dtype)
      throw Error("there is no room for the output " + wanted[i].name + ", " + wanted[i].dtype + " " +
                  show(wanted[i].shape) + ", in the host's memory");
    copy_to_host(impl_->output(i), to[i].data(), wanted[i].bytes(), wanted[i].name);
  }
}

std::vector<Tensor> Session::outputs_in_place() const {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < impl_->info.outputs.size(); i++) {
    Value value = impl_->output(i);
    TVMFFIObjectIncRef(value.object()); /* the tensor's */
    outputs.push_back(Tensor());
    outputs.back().hold(impl_->info.outputs[i].name, value.object());
  }
  return outputs;
}

Tensor Session::to_device(const Tensor& tensor) const {
  if (!impl_->on_gpu() || !tensor.on_host()) return tensor;
  TVMFFIObjectHandle copy = nullptr;
  {
    DeviceUse use(impl_->device);
    Value from = tensor.object_ ? Value::retain(tensor.object_.get(), kTVMFFITensor)
                                : share(tensor.info(), tensor.memory_);
    copy = impl_->copy_here(from, tensor.info()).release();
    wait_for(impl_->device, tensor.info().name);
  }
  Tensor there;
  there.hold(tensor.info().name, copy);
  return there;
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
  std::string fault = find_fault(rules);
  if (!fault.empty()) throw Error(fault);
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
  if (tensor.dtype != "float32" && tensor.dtype != "uint8")
    throw Error("pictures become float32 or uint8 here; " + tensor.name + " is " + tensor.dtype);
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
      } else {
        result.as<uint8_t>()[at] = static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0f, 255.0f));
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
  auto is_nan = [&](size_t i) { return std::isnan(values[i]); };
  std::vector<size_t> order(size);
  for (size_t i = 0; i < size; i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return values[a] > values[b] || (is_nan(b) && !is_nan(a)); /* last, as NumPy has them */
  });
  double most = values[order.front()], least = values[order.back()], total = 0;
  bool logits = least < 0 || (most > 1 && !std::isnan(least));
  for (size_t i = 0; i < size; i++) total += logits ? std::exp(values[i] - most) : 0;
  std::vector<RankedClass> best;
  for (size_t i = 0; i < std::min(count, size); i++) {
    double value = values[order[i]];
    double probability = logits ? std::exp(value - most) / total : value;
    best.push_back({order[i], probability, labels.size() == size ? labels[order[i]] : ""});
  }
  return best;
}

}  // namespace tvmbuild
