// The functions of tvmbuild.h that load packages and run them.
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parts/handles.h"
#include "parts/session_state.h"

using namespace tvmbuild;
using namespace tvmbuild::c;

namespace {

Session load(const std::vector<std::string> &paths, const ThreadOptions &threads) {
  return paths.size() == 1 ? Session(paths.front(), threads) : Session::first_of(paths, threads);
}

// Call a function of a session. No other thread calls one meanwhile.
template <typename Work>
tvmbuild_status with(tvmbuild_session *session, Work work) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(session, "session");
    std::lock_guard<std::mutex> lock(found->turn);
    work(*found);
  });
}

std::vector<Tensor> find_all(tvmbuild_tensor *const *handles, size_t count, const char *name) {
  if (count != 0) expect(handles, name);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < count; i++) tensors.push_back(*find(handles[i], name));
  return tensors;
}

// Write a handle for each tensor, or none.
void write_all(std::vector<Tensor> tensors, tvmbuild_tensor **to) {
  std::vector<tvmbuild_tensor *> handles;
  handles.reserve(tensors.size());
  try {
    for (Tensor &each : tensors)
      handles.push_back(Handles::all().add<tvmbuild_tensor>(std::make_shared<const Tensor>(std::move(each))));
  } catch (...) {
    for (tvmbuild_tensor *each : handles) Handles::all().close(each);
    throw;
  }
  std::copy(handles.begin(), handles.end(), to);
}

void expect_room(const Info &info, tvmbuild_tensor *const *to, size_t count, const char *name) {
  if (count != info.outputs.size())
    throw Error(info.model + " has " + std::to_string(info.outputs.size()) + " outputs, got room for " +
                std::to_string(count));
  if (count != 0) expect(to, name);
}

std::string show(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t each : shape) text += (text.empty() ? "" : ", ") + std::to_string(each);
  return "[" + text + "]";
}

// Return an input with the longest that each of its axes has at any size. Only bind() knows which lengths fit together.
TensorInfo find_longest(const Info &info, size_t at) {
  TensorInfo longest = info.inputs[at];
  auto axes = info.sizes.inputs.find(longest.name);
  if (axes == info.sizes.inputs.end()) return longest;
  for (const SizeFunction &size : info.sizes.functions) {
    for (size_t i = 0; i < longest.shape.size(); i++) {
      auto value = size.values.find(axes->second[i].letter);
      if (value != size.values.end()) longest.shape[i] = std::max(longest.shape[i], value->second);
      if (axes->second[i].letter == info.sizes.range.letter) longest.shape[i] = info.sizes.range.last;
    }
  }
  return longest;
}

// Return the form of an array, which a package could have room for.
TensorInfo read_form(const Info &info, size_t at, const tvmbuild_array &given) {
  const TensorInfo wanted = find_longest(info, at);
  bool may_vary = !info.sizes.functions.empty();
  auto refuse = [&](const std::string &got) {
    throw Error("the input " + wanted.name + " of " + info.model + " is " + wanted.dtype + " " + show(wanted.shape) +
                (may_vary ? " or smaller, got " : ", got ") + given.dtype + " " + got);
  };
  expect(given.dtype, "inputs->dtype");
  if (given.rank != wanted.shape.size()) refuse("with " + std::to_string(given.rank) + " axes");
  if (given.rank != 0) expect(given.shape, "inputs->shape");
  std::vector<int64_t> shape(given.shape, given.shape + given.rank);
  bool fits = given.dtype == wanted.dtype;
  for (size_t i = 0; i < shape.size(); i++)
    fits = fits && (may_vary ? shape[i] >= 0 && shape[i] <= wanted.shape[i] : shape[i] == wanted.shape[i]);
  if (!fits) refuse(show(shape));
  return {wanted.name, std::move(shape), wanted.dtype, {}};
}

// Copy arrays into the session's own inputs, which stay bound as long as their shapes do.
void place_inputs(SessionState &state, const tvmbuild_array *given, size_t count) {
  const Info &info = state.session.info();
  if (count != info.inputs.size())
    throw Error(info.model + " takes " + std::to_string(info.inputs.size()) + " inputs, got " + std::to_string(count));
  if (count != 0) expect(given, "inputs");
  std::vector<TensorInfo> forms;
  bool same = state.bound && state.inputs.size() == count;
  for (size_t i = 0; i < count; i++) {
    forms.push_back(read_form(info, i, given[i]));
    same = same && forms[i].shape == state.inputs[i].info().shape;
    if (forms[i].count() != 0) expect(given[i].data, "inputs->data");
  }
  if (!same) {
    state.bound = false;
    state.inputs.clear();
    for (size_t i = 0; i < count; i++) {
      if (forms[i].shape == info.inputs[i].shape) {
        state.inputs.push_back(state.session.make_input(i));
      } else {
        state.inputs.emplace_back(forms[i]);
      }
    }
    state.session.bind(state.inputs);
    state.bound = true;
  }
  for (size_t i = 0; i < count; i++) {
    if (forms[i].count() != 0) std::memcpy(state.inputs[i].data(), given[i].data, forms[i].bytes());
  }
}

bool has_fixed_outputs(const Info &info) {
  bool fixed = info.sizes.functions.empty();
  for (const TensorInfo &each : info.outputs) fixed = fixed && each.counts.empty();
  return fixed;
}

// Read all options but the inputs.
void read_words(const tvmbuild_frame_options &given, FrameOptions &options) {
  options.encoding = given.encoding == nullptr ? "" : given.encoding;
  options.width = given.width;
  options.score = given.score == nullptr ? std::nullopt : std::optional<double>(*given.score);
  options.overlap = given.overlap == nullptr ? std::nullopt : std::optional<double>(*given.overlap);
}

// Let the session's frame options be those of the caller. Unless its inputs are new, this allocates nothing.
void place_options(SessionState &state, const tvmbuild_frame_options &given) {
  FrameOptions &options = state.frame_options;
  read_words(given, options);
  if (given.input_count != 0) expect(given.inputs, "options->inputs");
  bool same = given.input_count == state.frame_inputs.size();
  for (size_t i = 0; i < given.input_count; i++) {
    static_cast<void>(find(given.inputs[i], "options->inputs"));
    same = same && given.inputs[i] == state.frame_inputs[i];
  }
  if (same) return;
  state.frame_inputs.clear();
  options.inputs = find_all(given.inputs, given.input_count, "options->inputs");
  state.frame_inputs.assign(given.inputs, given.inputs + given.input_count);
}

// Hand the outputs of a call in the background, or its error, to a function of C.
void report(tvmbuild_done done, void *context, std::vector<Tensor> outputs, const std::exception_ptr &error) noexcept {
  std::vector<tvmbuild_tensor *> handles;
  tvmbuild_status status = guard(TVMBUILD_CALL, [&] {
    if (error) std::rethrow_exception(error);
    std::vector<tvmbuild_tensor *> made(outputs.size());
    write_all(std::move(outputs), made.data());
    handles = std::move(made);
  });
  done(context, status, handles.data(), handles.size());
  for (tvmbuild_tensor *each : handles) static_cast<void>(tvmbuild_close(each));  // `done` may have closed it
}

void report_frame(tvmbuild_frame_done done, void *context, const Results &results,
                  const std::exception_ptr &error) noexcept {
  ResultsView view;
  tvmbuild_results read = {};
  tvmbuild_status status = guard(TVMBUILD_CALL, [&] {
    if (error) std::rethrow_exception(error);
    read = view.read(results);
    read.size = sizeof(read);
  });
  done(context, status, status == TVMBUILD_OK ? &read : nullptr);
}

}  // namespace

tvmbuild_status tvmbuild_load(const char *const *paths, size_t count, const tvmbuild_load_options *options,
                              tvmbuild_session **session) {
  return guard(TVMBUILD_PACKAGE, [&] {
    expect(paths, "paths");
    expect(session, "session");
    if (count == 0) throw ArgumentError("`count` is 0: name one package or more");
    tvmbuild_load_options wish = read(options, "options");
    if (wish.core_count != 0) expect(wish.cores, "options->cores");
    ThreadOptions threads;
    threads.threads = wish.threads;
    threads.priority = wish.priority;
    threads.cores.assign(wish.cores, wish.cores + wish.core_count);
    std::vector<std::string> names;
    for (size_t i = 0; i < count; i++) {
      expect(paths[i], "paths");
      names.emplace_back(paths[i]);
    }
    *session = Handles::all().add<tvmbuild_session>(std::make_shared<SessionState>(load(names, threads)));
  });
}

tvmbuild_status tvmbuild_load_linked(const char *prefix, const char *mod_json, tvmbuild_session **session) {
  return guard(TVMBUILD_PACKAGE, [&] {
    expect(prefix, "prefix");
    expect(mod_json, "mod_json");
    expect(session, "session");
    Session loaded(LinkedModel{prefix, mod_json});
    *session = Handles::all().add<tvmbuild_session>(std::make_shared<SessionState>(std::move(loaded)));
  });
}

tvmbuild_status tvmbuild_passed_over(tvmbuild_session *session, const char **lines) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(session, "session");
    expect(lines, "lines");
    *lines = found->passed_over.c_str();
  });
}

tvmbuild_status tvmbuild_threads(tvmbuild_session *session, int32_t *threads) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(session, "session");
    expect(threads, "threads");
    *threads = found->session.threads();
  });
}

tvmbuild_status tvmbuild_at(tvmbuild_session *session, const tvmbuild_size_info *size, tvmbuild_session **part) {
  return guard(TVMBUILD_CALL, [&] {
    auto whole = find(session, "session");
    expect(size, "size");
    expect(part, "part");
    tvmbuild_size_info wish = read(size, "size");
    if (wish.count != 0) expect(wish.letters, "size->letters");
    if (wish.count != 0) expect(wish.values, "size->values");
    std::map<std::string, int64_t> values;
    for (size_t i = 0; i < wish.count; i++) {
      expect(wish.letters[i], "size->letters");
      values[wish.letters[i]] = wish.values[i];
    }
    std::lock_guard<std::mutex> lock(whole->turn);
    Session &chosen = whole->session.at(values);
    auto state = whole->sizes[&chosen].lock();
    if (!state) whole->sizes[&chosen] = state = std::make_shared<SessionState>(whole, chosen);
    *part = Handles::all().add<tvmbuild_session>(std::move(state));
  });
}

tvmbuild_status tvmbuild_run_frame(tvmbuild_session *session, const uint8_t *bytes, size_t byte_count,
                                   const tvmbuild_frame_options *options, tvmbuild_results *results) {
  return with(session, [&](SessionState &state) {
    expect(bytes, "bytes");
    expect_size(results, "results");
    place_options(state, read(options, "options"));
    write(results, state.results.read(state.session.run_frame(bytes, byte_count, state.frame_options)));
  });
}

tvmbuild_status tvmbuild_prepare_frame(tvmbuild_session *session, const uint8_t *bytes, size_t byte_count,
                                       const tvmbuild_frame_options *options, tvmbuild_tensor **input) {
  return with(session, [&](SessionState &state) {
    expect(bytes, "bytes");
    expect(input, "input");
    tvmbuild_frame_options given = read(options, "options");
    FrameOptions wish;
    wish.encoding = given.encoding == nullptr ? "" : given.encoding;
    wish.width = given.width;
    write_all({state.session.prepare_frame(bytes, byte_count, wish)}, input);
  });
}

tvmbuild_status tvmbuild_run(tvmbuild_session *session, const tvmbuild_array *inputs, size_t input_count,
                             const tvmbuild_array **outputs, size_t *output_count) {
  return with(session, [&](SessionState &state) {
    expect(outputs, "outputs");
    expect(output_count, "output_count");
    place_inputs(state, inputs, input_count);
    state.session.call();
    const Info &info = state.session.info();
    if (!has_fixed_outputs(info)) {
      state.outputs = state.session.outputs();
    } else {
      for (size_t i = state.outputs.size(); i < info.outputs.size(); i++) state.outputs.emplace_back(info.outputs[i]);
      state.session.copy_outputs(state.outputs);
    }
    view_all(state.outputs, state.output_arrays);
    *outputs = state.output_arrays.data();
    *output_count = state.output_arrays.size();
  });
}

tvmbuild_status tvmbuild_bind(tvmbuild_session *session, tvmbuild_tensor *const *inputs, size_t count) {
  return with(session, [&](SessionState &state) {
    std::vector<Tensor> tensors = find_all(inputs, count, "inputs");
    state.bound = false;
    state.session.bind(tensors);
  });
}

tvmbuild_status tvmbuild_call(tvmbuild_session *session) {
  return with(session, [](SessionState &state) { state.session.call(); });
}

tvmbuild_status tvmbuild_call_on_stream(tvmbuild_session *session, void *stream) {
  return with(session, [&](SessionState &state) { state.session.call_on_stream(stream); });
}

tvmbuild_status tvmbuild_outputs(tvmbuild_session *session, tvmbuild_tensor **outputs, size_t count) {
  return with(session, [&](SessionState &state) {
    expect_room(state.session.info(), outputs, count, "outputs");
    write_all(state.session.outputs(), outputs);
  });
}

tvmbuild_status tvmbuild_outputs_in_place(tvmbuild_session *session, tvmbuild_tensor **outputs, size_t count) {
  return with(session, [&](SessionState &state) {
    expect_room(state.session.info(), outputs, count, "outputs");
    write_all(state.session.outputs_in_place(), outputs);
  });
}

tvmbuild_status tvmbuild_copy_outputs(tvmbuild_session *session, tvmbuild_tensor *const *to, size_t count) {
  return with(session, [&](SessionState &state) {
    expect_room(state.session.info(), to, count, "to");
    state.session.copy_outputs(find_all(to, count, "to"));
  });
}

tvmbuild_status tvmbuild_output_shape(tvmbuild_session *session, size_t at, const int64_t **shape, size_t *rank) {
  return with(session, [&](SessionState &state) {
    expect(shape, "shape");
    expect(rank, "rank");
    expect_place(at, state.session.info().outputs.size(), "outputs");
    state.shapes = state.session.output_shapes();
    *shape = state.shapes[at].data();
    *rank = state.shapes[at].size();
  });
}

// Without the session's turn: a callback may use the session while this waits for room.
tvmbuild_status tvmbuild_call_async(tvmbuild_session *session, tvmbuild_tensor *const *inputs, size_t count,
                                    int32_t newest, tvmbuild_done done, void *context) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(session, "session");
    if (done == nullptr) throw ArgumentError("`done` is null");
    auto finish = [done, context](std::vector<Tensor> outputs, const std::exception_ptr &error) {
      report(done, context, std::move(outputs), error);
    };
    found->session.call_async(find_all(inputs, count, "inputs"), finish, newest != 0);
  });
}

tvmbuild_status tvmbuild_run_frame_async(tvmbuild_session *session, const uint8_t *bytes, size_t byte_count,
                                         const tvmbuild_frame_options *options, tvmbuild_frame_done done,
                                         void *context) {
  return guard(TVMBUILD_CALL, [&] {
    auto found = find(session, "session");
    expect(bytes, "bytes");
    if (done == nullptr) throw ArgumentError("`done` is null");
    tvmbuild_frame_options given = read(options, "options");
    FrameOptions wish;
    read_words(given, wish);
    wish.inputs = find_all(given.inputs, given.input_count, "options->inputs");
    auto finish = [done, context](const Results &results, const std::exception_ptr &error) {
      report_frame(done, context, results, error);
    };
    found->session.run_frame_async(bytes, byte_count, finish, wish, given.newest != 0);
  });
}

tvmbuild_status tvmbuild_wait_async(tvmbuild_session *session) {
  return guard(TVMBUILD_CALL, [&] { find(session, "session")->session.wait_async(); });
}
