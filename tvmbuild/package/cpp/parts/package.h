// A package's parts, checked. A part of tvmbuild.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "archive.h"
#include "metadata.h"
#include "sha256.h"
#include "sizes.h"

namespace tvmbuild::detail {

struct Package {
  Info info;
  Attributes needs;
  std::string library, params;
  std::map<std::string, std::string> others;  // the libraries of the other sizes
};

inline Package read_archive(const std::string &data) {
  std::map<std::string, std::string> members = read_members(data);
  nlohmann::json json = read_json(members["mod.json"]);
  Part metadata(json);
  Package package;
  package.info = read_metadata(metadata, package.needs);
  Part files = metadata["files"];
  if (metadata.has("sizes") && !metadata["sizes"].is_null())
    package.info.sizes = read_sizes(metadata["sizes"], package.info);
  std::set<std::string> names = {"mod.params", "mod.so"}, held;
  for (const SizeFunction &each : package.info.sizes.functions) names.insert(each.library);
  for (const auto &member : members) held.insert(member.first);
  held.erase("mod.json");
  if (files.keys() != names || held != names) damaged("mod.json lists other files than the archive holds");
  for (const std::string &name : files.keys()) {
    const std::string &data = members[name];
    if (files[name]["size"].natural() != data.size() || files[name]["sha256"].text() != sha256(data))
      damaged(name + " is not the file that mod.json describes");
  }
  package.library = std::move(members["mod.so"]);
  package.params = std::move(members["mod.params"]);
  for (const SizeFunction &each : package.info.sizes.functions) {
    if (each.library != "mod.so") package.others[each.library] = std::move(members[each.library]);
  }
  return package;
}

inline Package read_package(const std::string &path) try {
  return read_archive(read_file(path));
} catch (const Damage &damage) {
  throw Error(path + " is damaged: " + damage.what());
}

}  // namespace tvmbuild::detail
