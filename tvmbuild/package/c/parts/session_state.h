// A session behind its handle. A part of libtvmbuild.so.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "handles.h"
#include "package_view.h"
#include "results_view.h"

namespace tvmbuild::c {

struct SessionState {
  SessionState(Session given, std::string others)
      : session(std::move(given)),
        package(std::make_shared<const PackageView>(session.info())),
        passed_over(std::move(others)) {}

  std::mutex turn;  // a session serves one thread at a time
  Session session;
  std::shared_ptr<const PackageView> package;
  const std::string passed_over;

  // Of tvmbuild_run: the inputs are bound as long as tvmbuild_bind does not bind others.
  std::vector<Tensor> inputs, outputs;
  bool bound = false;
  std::vector<tvmbuild_array> output_arrays;

  // Of tvmbuild_run_frame. They are kept, because allocating would cost time at every frame.
  FrameOptions frame_options;
  std::vector<tvmbuild_tensor *> frame_inputs;
  ResultsView results;

  std::vector<std::vector<int64_t>> shapes;  // of tvmbuild_output_shape
};

}  // namespace tvmbuild::c
