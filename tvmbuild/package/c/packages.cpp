// The functions of tvmbuild.h for metadata.
#include "parts/handles.h"
#include "parts/package_view.h"
#include "parts/session_state.h"

using namespace tvmbuild;
using namespace tvmbuild::c;

namespace {

tvmbuild_tensor_info view_tensor(const TensorInfo &from, const std::vector<size_t> &counted) {
  return {0,
          from.name.c_str(),
          from.dtype.c_str(),
          from.shape.data(),
          from.shape.size(),
          from.bytes(),
          counted.data(),
          counted.size()};
}

// Write a struct about one of a package's things.
template <typename Described, typename View>
tvmbuild_status describe_one(tvmbuild_package *package, Described *info, View view) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(package, "package");
    expect_size(info, "info");
    write(info, Described(view(*found)));
  });
}

}  // namespace

uint32_t tvmbuild_abi(void) { return TVMBUILD_ABI; }

const char *tvmbuild_last_error(void) { return last_error().c_str(); }

tvmbuild_status tvmbuild_close(void *handle) {
  return guard(TVMBUILD_CALL, [&] {
    if (handle != nullptr) Handles::all().close(handle);
  });
}

tvmbuild_status tvmbuild_read_package(const char *path, tvmbuild_package **package) {
  return guard(TVMBUILD_PACKAGE, [&] {
    expect(path, "path");
    expect(package, "package");
    *package = Handles::all().add<tvmbuild_package>(std::make_shared<const PackageView>(read_info(path)));
  });
}

tvmbuild_status tvmbuild_describe(tvmbuild_session *session, tvmbuild_package **package) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(session, "session");
    expect(package, "package");
    *package = Handles::all().add<tvmbuild_package>(found->package);
  });
}

tvmbuild_status tvmbuild_package_describe(tvmbuild_package *package, tvmbuild_package_info *info) {
  return describe_one(package, info, [](const PackageView &found) {
    const Info &from = found.info;
    tvmbuild_package_info to = {};
    to.model = from.model.c_str();
    to.target = from.target.c_str();
    to.kind = from.kind.c_str();
    to.labels = found.labels.data();
    to.label_count = found.labels.size();
    to.input_count = from.inputs.size();
    to.output_count = from.outputs.size();
    to.frame_count = from.frames.size();
    to.result_count = from.postprocess.size();
    to.size_count = found.sizes.size();
    to.cores = from.cores;
    to.tasks = from.tasks;
    to.covered = from.covered;
    return to;
  });
}

tvmbuild_status tvmbuild_package_input(tvmbuild_package *package, size_t at, tvmbuild_tensor_info *info) {
  return describe_one(package, info, [&](const PackageView &found) {
    expect_place(at, found.info.inputs.size(), "inputs");
    return view_tensor(found.info.inputs[at], found.counted[at]);
  });
}

tvmbuild_status tvmbuild_package_output(tvmbuild_package *package, size_t at, tvmbuild_tensor_info *info) {
  return describe_one(package, info, [&](const PackageView &found) {
    expect_place(at, found.info.outputs.size(), "outputs");
    return view_tensor(found.info.outputs[at], found.counted[found.info.inputs.size() + at]);
  });
}

tvmbuild_status tvmbuild_package_frame(tvmbuild_package *package, size_t at, tvmbuild_frame_info *info) {
  return describe_one(package, info, [&](const PackageView &found) {
    expect_place(at, found.info.frames.size(), "frames");
    const Frame &from = found.info.frames[at];
    Crop crop = from.crop.value_or(Crop{0, 0, from.height, from.width});
    tvmbuild_frame_info to = {};
    to.encoding = from.encoding.c_str();
    to.interpolation = from.interpolation.c_str();
    to.height = from.height;
    to.width = from.width;
    to.stride = from.stride;
    to.crop_top = crop.top;
    to.crop_left = crop.left;
    to.crop_height = crop.height;
    to.crop_width = crop.width;
    to.bytes = from.bytes();
    return to;
  });
}

tvmbuild_status tvmbuild_package_result(tvmbuild_package *package, size_t at, tvmbuild_result_info *info) {
  return describe_one(package, info, [&](const PackageView &found) {
    expect_place(at, found.info.postprocess.size(), "results");
    const Postprocess &from = found.info.postprocess[at];
    tvmbuild_result_info to = {};
    to.kind = from.kind.c_str();
    to.score = from.score ? &*from.score : nullptr;
    to.overlap = from.overlap ? &*from.overlap : nullptr;
    to.most = from.most;
    to.points = from.points;
    to.values = from.values;
    to.blank = from.blank.c_str();
    to.labels = found.result_labels[at].data();
    to.label_count = found.result_labels[at].size();
    to.outputs = found.result_outputs[at].data();
    to.output_count = found.result_outputs[at].size();
    to.in_input = from.in_input ? 1 : 0;
    return to;
  });
}

tvmbuild_status tvmbuild_package_size(tvmbuild_package *package, size_t at, tvmbuild_size_info *info) {
  return describe_one(package, info, [&](const PackageView &found) {
    expect_place(at, found.sizes.size(), "sizes");
    const PackageView::SizeArrays &from = found.sizes[at];
    return tvmbuild_size_info{0, from.letters.data(), from.values.data(), from.values.size()};
  });
}

tvmbuild_status tvmbuild_package_preprocess(tvmbuild_package *package, tvmbuild_preprocess_info *info) {
  return describe_one(package, info, [&](const PackageView &found) {
    if (!found.info.preprocess) throw Error(found.info.model + " does not say how a picture becomes its input");
    const Preprocess &from = *found.info.preprocess;
    tvmbuild_preprocess_info to = {};
    to.input = from.input.c_str();
    to.resize = from.resize.c_str();
    to.color = from.color.c_str();
    to.layout = from.layout.c_str();
    to.align = from.align.c_str();
    to.scale = from.scale;
    to.crop_pct = from.crop_pct;
    to.mean = from.mean.data();
    to.std = from.std.data();
    to.mean_count = from.mean.size();
    to.std_count = from.std.size();
    to.fill = from.fill;
    to.place = static_cast<int32_t>(picture_input(found.info, from));
    return to;
  });
}
