// Calls that run on a thread of their own, in order, one of them waiting: runtime/call_queue.py's twin. A part of
// tvmbuild.cpp.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tvmbuild::detail {

class CallQueue {
 public:
  using Run = std::function<std::vector<Tensor>(const std::vector<Tensor> &)>;

  explicit CallQueue(Run run) : run_(std::move(run)), thread_([this] { work(); }) {}
  CallQueue(const CallQueue &) = delete;
  CallQueue &operator=(const CallQueue &) = delete;

  ~CallQueue() { close(); }

  // Cancel the call that waits, wait for the one that runs, and take no more calls.
  void close() {
    std::optional<Call> cancelled;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
      cancelled.swap(waiting_);
    }
    changed_.notify_all();
    if (cancelled) cancel(*cancelled);
    if (thread_.joinable()) thread_.join();
  }

  // While a call runs and another waits, wait; if `newest`, cancel the one that waits instead. After close(), cancel
  // the new call.
  void add(std::vector<Tensor> inputs, Done done, bool newest) {
    std::optional<Call> cancelled;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (waiting_ && !newest) {
        if (std::this_thread::get_id() == thread_.get_id())
          throw Error("a callback cannot wait for room among the calls: use `newest`");
        changed_.wait(lock, [this] { return !waiting_; });
      }
      cancelled.swap(waiting_);
      std::optional<Call> &place = closed_ ? cancelled : waiting_;
      place.emplace(Call{std::move(inputs), std::move(done)});
    }
    changed_.notify_all();
    if (cancelled) cancel(*cancelled);
  }

  // Wait until no call runs or waits.
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (std::this_thread::get_id() == thread_.get_id()) throw Error("a callback cannot wait for the calls");
    changed_.wait(lock, [this] { return !waiting_ && !running_; });
  }

 private:
  struct Call {
    std::vector<Tensor> inputs;
    Done done;
  };

  static void cancel(const Call &call) {
    call.done({}, std::make_exception_ptr(Cancelled("the call was cancelled: a newer one came, or the session ended")));
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return waiting_ || closed_; });
      if (!waiting_) return;
      std::optional<Call> call;
      call.swap(waiting_);
      running_ = true;
      lock.unlock();
      changed_.notify_all();
      std::vector<Tensor> outputs;
      std::exception_ptr error;
      try {
        outputs = run_(call->inputs);
      } catch (...) {
        error = std::current_exception();
      }
      call->done(std::move(outputs), error);
      call.reset();  // the inputs may be large
      lock.lock();
      running_ = false;
      changed_.notify_all();
    }
  }

  Run run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Call> waiting_;
  bool running_ = false, closed_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace tvmbuild::detail
