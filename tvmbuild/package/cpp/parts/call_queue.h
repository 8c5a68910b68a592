// Calls that run on a thread of their own, in order, one of them waiting: runtime/call_queue.py's twin. A part of
// tvmbuild.cpp.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tvmbuild::detail {

class CallQueue {
 public:
  using Run = std::function<std::vector<Tensor>(const std::vector<Tensor> &)>;

  explicit CallQueue(Run run)
      : state_(std::make_shared<State>(std::move(run))), thread_([state = state_] { state->work(); }) {}
  CallQueue(const CallQueue &) = delete;
  CallQueue &operator=(const CallQueue &) = delete;

  ~CallQueue() { close(); }

  // Cancel the call that waits, wait for the one that runs, and take no more calls. From a callback, do not wait: the
  // thread ends after it.
  void close() {
    std::optional<Call> cancelled;
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      state_->closed = true;
      cancelled.swap(state_->waiting);
    }
    state_->changed.notify_all();
    if (cancelled) cancel(*cancelled);
    if (!thread_.joinable()) return;
    if (is_callback()) {
      state_->run = nullptr;  // its session goes here, and not when the process may be ending
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  // While a call runs and another waits, wait; if `newest`, cancel the one that waits instead. After close(), cancel
  // the new call.
  void add(std::vector<Tensor> inputs, Done done, bool newest) {
    std::optional<Call> cancelled;
    {
      std::unique_lock<std::mutex> lock(state_->mutex);
      if (state_->waiting && !newest) {
        if (is_callback()) throw Error("a callback cannot wait for room among the calls: use `newest`");
        state_->changed.wait(lock, [this] { return !state_->waiting; });
      }
      cancelled.swap(state_->waiting);
      std::optional<Call> &place = state_->closed ? cancelled : state_->waiting;
      place.emplace(Call{std::move(inputs), std::move(done)});
    }
    state_->changed.notify_all();
    if (cancelled) cancel(*cancelled);
  }

  // Wait until no call runs or waits.
  void wait() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    if (is_callback()) throw Error("a callback cannot wait for the calls");
    state_->changed.wait(lock, [this] { return !state_->waiting && !state_->running; });
  }

 private:
  struct Call {
    std::vector<Tensor> inputs;
    Done done;
  };

  static void cancel(const Call &call) {
    call.done({}, std::make_exception_ptr(Cancelled("the call was cancelled: a newer one came, or the session ended")));
  }

  bool is_callback() const { return std::this_thread::get_id() == thread_.get_id(); }

  // What the thread needs. It stays until the thread ends, also if a callback ends the session.
  struct State {
    explicit State(Run given) : run(std::move(given)) {}

    void work() {
      std::unique_lock<std::mutex> lock(mutex);
      while (true) {
        changed.wait(lock, [this] { return waiting || closed; });
        if (!waiting) return;
        std::optional<Call> call;
        call.swap(waiting);
        running = true;
        lock.unlock();
        changed.notify_all();
        std::vector<Tensor> outputs;
        std::exception_ptr error;
        try {
          outputs = run(call->inputs);
        } catch (...) {
          error = std::current_exception();
        }
        call->inputs.clear();  // they may be large
        call->done(std::move(outputs), error);
        call.reset();
        lock.lock();
        running = false;
        changed.notify_all();
      }
    }

    Run run;
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Call> waiting;
    bool running = false, closed = false;
  };

  std::shared_ptr<State> state_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace tvmbuild::detail
