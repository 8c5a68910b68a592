// The functions of tvmbuild.h for tensors, and for pictures that become one.
#include <algorithm>
#include <string>
#include <vector>

#include "parts/handles.h"
#include "parts/package_view.h"
#include "parts/results_view.h"
#include "parts/session_state.h"

using namespace tvmbuild;
using namespace tvmbuild::c;

namespace {

constexpr size_t MOST_AXES = 64;
constexpr int64_t MOST_ELEMENTS = int64_t{1} << 40;

// Add a handle and return it at the end, so that an error writes nothing.
tvmbuild_tensor *add(Tensor tensor) {
  return Handles::all().add<tvmbuild_tensor>(std::make_shared<const Tensor>(std::move(tensor)));
}

std::vector<int64_t> read_shape(const int64_t *shape, size_t rank) {
  if (rank != 0) expect(shape, "shape");
  if (rank > MOST_AXES) throw ArgumentError("`rank` is " + std::to_string(rank) + ", and at most 64 axes are possible");
  std::vector<int64_t> lengths(shape, shape + rank);
  int64_t count = 1;
  for (int64_t &each : lengths) {
    if (each < 0 || __builtin_mul_overflow(count, std::max<int64_t>(each, 1), &count) || count > MOST_ELEMENTS)
      throw ArgumentError("`shape` has a negative length, or more elements than any memory holds");
  }
  return lengths;
}

Preprocess read_rules(const tvmbuild_preprocess_info &from) {
  Preprocess rules;
  const std::pair<const char *, std::string *> texts[] = {{from.input, &rules.input},
                                                          {from.resize, &rules.resize},
                                                          {from.color, &rules.color},
                                                          {from.layout, &rules.layout},
                                                          {from.align, &rules.align}};
  for (const auto &[given, to] : texts) {
    if (given != nullptr) *to = given;
  }
  if (from.mean_count != 0) expect(from.mean, "rules->mean");
  if (from.std_count != 0) expect(from.std, "rules->std");
  if (from.fill < 0 || from.fill > UINT8_MAX) throw ArgumentError("`rules->fill` is not a byte");
  rules.mean.assign(from.mean, from.mean + from.mean_count);
  rules.std.assign(from.std, from.std + from.std_count);
  rules.scale = from.scale;
  rules.crop_pct = from.crop_pct;
  rules.fill = static_cast<uint8_t>(from.fill);
  return rules;
}

}  // namespace

tvmbuild_status tvmbuild_tensor_create(const char *name, const char *dtype, const int64_t *shape, size_t rank,
                                       tvmbuild_tensor **tensor) {
  return guard(TVMBUILD_CALL, [&] {
    expect(name, "name");
    expect(dtype, "dtype");
    expect(tensor, "tensor");
    *tensor = add(Tensor(TensorInfo{name, read_shape(shape, rank), dtype}));
  });
}

tvmbuild_status tvmbuild_tensor_from_dlpack(const char *name, DLManagedTensor *given, tvmbuild_tensor **tensor) {
  return guard(TVMBUILD_CALL, [&] {
    expect(name, "name");
    expect(given, "given");
    expect(tensor, "tensor");
    *tensor = add(Tensor(name, given));
  });
}

tvmbuild_status tvmbuild_tensor_to_dlpack(tvmbuild_tensor *tensor, DLManagedTensor **shared) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(tensor, "tensor");
    expect(shared, "shared");
    *shared = found->to_dlpack();
  });
}

tvmbuild_status tvmbuild_tensor_to_host(tvmbuild_tensor *tensor, tvmbuild_tensor **there) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(tensor, "tensor");
    expect(there, "there");
    *there = add(found->to_host());
  });
}

tvmbuild_status tvmbuild_tensor_to_device(tvmbuild_session *session, tvmbuild_tensor *tensor, tvmbuild_tensor **there) {
  return guard(TVMBUILD_CALL, [&] {
    auto on = find(session, "session");
    auto found = find(tensor, "tensor");
    expect(there, "there");
    std::lock_guard<std::mutex> lock(on->turn);
    *there = add(on->session.to_device(*found));
  });
}

tvmbuild_status tvmbuild_tensor_view(tvmbuild_tensor *tensor, tvmbuild_array *array, int32_t *on_host) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(tensor, "tensor");
    expect(array, "array");
    expect(on_host, "on_host");
    *array = view(*found);
    *on_host = found->on_host() ? 1 : 0;
  });
}

tvmbuild_status tvmbuild_preprocess(tvmbuild_package *package, const uint8_t *pixels, int32_t width, int32_t height,
                                    int32_t channels, const tvmbuild_preprocess_info *rules, tvmbuild_tensor **input) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(package, "package");
    expect(pixels, "pixels");
    expect(input, "input");
    if (width < 1 || height < 1 || (channels != 1 && channels != 3))
      throw ArgumentError("a picture has a width and a height above 0, and 1 or 3 channels");
    Picture picture{width, height, channels, {}};
    picture.pixels.assign(pixels, pixels + static_cast<size_t>(width) * height * channels);
    Preprocess own;
    if (rules != nullptr) own = read_rules(read(rules, "rules"));
    *input = add(preprocess(found->info, picture, rules == nullptr ? nullptr : &own));
  });
}

tvmbuild_status tvmbuild_rank_classes(tvmbuild_package *package, tvmbuild_tensor *scores, size_t room,
                                      tvmbuild_class *classes, size_t *count) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(package, "package");
    auto tensor = find(scores, "scores");
    if (room != 0) expect(classes, "classes");
    expect(count, "count");
    std::vector<RankedClass> best = rank_classes(*tensor, found->info.labels, room);
    for (size_t i = 0; i < best.size(); i++) {
      const char *label = best[i].label.empty() ? "" : found->labels[best[i].index];
      classes[i] = {static_cast<float>(best[i].probability), static_cast<int32_t>(best[i].index), label};
    }
    *count = best.size();
  });
}
