// Packs, which are several packages in one file: package/pack.py's twin. A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "package.h"

namespace tvmbuild::detail {

constexpr size_t MAX_PACKAGES = 64;

// A package: its own file, or one of those in a pack.
struct PackagePlace {
  std::string path;
  std::optional<size_t> number;  // in the pack
  std::string name;              // in messages
};

inline bool is_pack_member(const std::string &name) {
  size_t slash = name.find('/');
  if (slash == std::string::npos) return name == "pack.json" || name == "mod.params";
  std::string inner = name.substr(slash + 1);
  bool is_number = slash > 0 && slash < 3 && name.find_first_not_of("0123456789") == slash;
  return is_number && inner != "mod.params" && is_member(inner);
}

inline bool is_pack(std::string_view data) {
  const std::string name = "pack.json";
  return data.size() >= 512 && data.substr(0, name.size()) == name && data[name.size()] == '\0';
}

struct Pack {
  std::shared_ptr<MappedFile> file;
  std::map<std::string, std::string_view> members;
  nlohmann::json json;

  explicit Pack(std::shared_ptr<MappedFile> from) : file(std::move(from)) {
    members = read_members(file->data(), is_pack_member);
    if (!members.count("pack.json") || !members.count("mod.params")) damaged("mod.params or pack.json missing");
    if (members["pack.json"].size() > MAX_METADATA_BYTES) damaged("pack.json is larger than 64 MiB");
    json = read_json(std::string(members["pack.json"]));
    if (Part(json)["format"].natural() != 1) damaged("pack.json has another format than 1: pack it again");
    size_t count = Part(json)["packages"].list().size();
    if (count == 0 || count > MAX_PACKAGES) damaged("pack.json lists no packages, or too many");
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Part &each : Part(json)["packages"].list()) names.push_back(each["name"].text());
    return names;
  }

  // Check one package; the others are not read.
  Package read(size_t number) {
    std::string begin = std::to_string(number) + "/";
    std::map<std::string, std::string_view> mine = {{"mod.params", members["mod.params"]}};
    for (const auto &[name, data] : members) {
      if (name.compare(0, begin.size(), begin) == 0) mine[name.substr(begin.size())] = data;
    }
    Part weights = Part(json)["weights"];
    if (weights["size"].natural() != mine["mod.params"].size() ||
        weights["sha256"].text() != sha256(mine["mod.params"]))
      damaged("mod.params is not the file that pack.json describes");
    Package package = check_package(std::move(mine), false);
    package.places.emplace();
    for (const Part &place : Part(json)["packages"].list()[number]["params"].list())
      package.places->push_back(place.natural());
    return package;
  }
};

// List the packages in a file: itself, or those of a pack, in its order.
inline std::vector<PackagePlace> list_packages(const std::string &path) try {
  std::shared_ptr<MappedFile> file = MappedFile::open(path);
  if (!is_pack(file->data())) return {{path, std::nullopt, path}};
  std::vector<PackagePlace> places;
  for (const std::string &name : Pack(file).names())
    places.push_back({path, places.size(), std::string(path).append(": ").append(name)});
  return places;
} catch (const Damage &damage) {
  throw Error(path + " is damaged: " + damage.what());
}

inline Package read_package(const PackagePlace &place) try {
  std::shared_ptr<MappedFile> file = MappedFile::open(place.path);
  Package package = place.number ? Pack(file).read(*place.number) : read_archive(file->data());
  package.file = std::move(file);
  return package;
} catch (const Damage &damage) {
  throw Error(place.name + " is damaged: " + damage.what());
}

}  // namespace tvmbuild::detail
