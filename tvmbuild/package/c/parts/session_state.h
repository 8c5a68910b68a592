// A session behind its handle. A part of libtvmbuild.so.
#pragma once

#include <map>
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
  explicit SessionState(Session given)
      : own(std::make_unique<Session>(std::move(given))),
        session(*own),
        package(std::make_shared<const PackageView>(session.info())) {
    for (const PassedOver &each : session.passed_over())
      passed_over += (passed_over.empty() ? "" : "\n") + each.package + ": " + each.reason;
  }

  // A session of one size, which its whole owns.
  SessionState(std::shared_ptr<SessionState> given, Session &part)
      : whole(std::move(given)), session(part), package(std::make_shared<const PackageView>(session.info())) {}

  // The calls in the background end here, as no handle is left. A part's session stays with its whole.
  ~SessionState() { session.end_async(); }
  SessionState(const SessionState &) = delete;
  SessionState &operator=(const SessionState &) = delete;

  std::mutex turn;                      // a session serves one thread at a time
  std::shared_ptr<SessionState> whole;  // null unless this is the session of one size
  std::unique_ptr<Session> own;         // null if it is
  Session &session;
  std::map<const Session *, std::weak_ptr<SessionState>> sizes;  // those with a handle
  std::shared_ptr<const PackageView> package;
  std::string passed_over;  // a line for each package

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
