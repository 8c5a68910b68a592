// A package's parts, checked. A part of tvmbuild.cpp.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive.h"
#include "mapped_file.h"
#include "metadata.h"
#include "sha256.h"
#include "sizes.h"

namespace tvmbuild::detail {

struct Package {
  Info info;
  Attributes needs;
  std::shared_ptr<MappedFile> file;
  std::string_view library, params;           // in the file
  std::map<std::string, std::string> others;  // the libraries of the other sizes
  // The places of its weights among those in `params`, which it shares with others of a pack; empty: all of them.
  std::optional<std::vector<size_t>> places;
};

// Check the members of a package, the digest of mod.params only if it is the package's own file.
inline Package check_package(std::map<std::string, std::string_view> members, bool with_params) {
  for (const char *name : {"mod.json", "mod.params", "mod.so"}) {
    if (!members.count(name)) damaged(std::string(name) + " missing");
  }
  if (members["mod.json"].size() > MAX_METADATA_BYTES) damaged("mod.json is larger than 64 MiB");
  nlohmann::json json = read_json(std::string(members["mod.json"]));
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
    if (name == "mod.params" && !with_params) continue;
    std::string_view data = members[name];
    if (files[name]["size"].natural() != data.size() || files[name]["sha256"].text() != sha256(data))
      damaged(name + " is not the file that mod.json describes");
  }
  package.library = members["mod.so"];
  package.params = members["mod.params"];
  for (const SizeFunction &each : package.info.sizes.functions) {
    if (each.library != "mod.so") package.others[each.library] = std::string(members[each.library]);
  }
  return package;
}

inline Package read_archive(std::string_view data) { return check_package(read_members(data, is_member), true); }

}  // namespace tvmbuild::detail
