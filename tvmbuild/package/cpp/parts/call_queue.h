// Calls that run on threads of their own, in order, one of them waiting: runtime/call_queue.py's twin. A part of
// tvmbuild.cpp.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "../tvmbuild.hpp"

namespace tvmbuild::detail {

// A call in the background.
struct Job {
  std::function<void()> start;
  // Wait for the call and hand over its results, or hand over the error with which it was not started or is cancelled.
  std::function<void(const std::exception_ptr &)> finish;
  bool newest = false;
};

class CallQueue {
 public:
  // At most `at_once` calls are started and not finished. If it is more than one, a second thread finishes them.
  explicit CallQueue(size_t at_once) : state_(std::make_shared<State>(at_once)) {
    threads_[0] = std::thread([state = state_] { state->start_all(); });
    if (at_once > 1) threads_[1] = std::thread([state = state_] { state->finish_all(); });
  }
  CallQueue(const CallQueue &) = delete;
  CallQueue &operator=(const CallQueue &) = delete;

  ~CallQueue() { close(); }

  // Cancel the call that waits, wait for those that were started, and take no more calls. From a callback, finish the
  // other calls here; its own thread ends after it.
  void close() {
    std::optional<Job> cancelled;
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      state_->closed = true;
      cancelled.swap(state_->waiting);
    }
    state_->changed.notify_all();
    if (cancelled) cancel(*cancelled);
    for (std::thread &each : threads_) {
      if (!each.joinable()) continue;
      if (each.get_id() != std::this_thread::get_id()) {
        each.join();
      } else {
        state_->finish_rest();
        each.detach();
      }
    }
  }

  // While a call waits, wait; if the call is the newest, cancel the one that waits instead. A newest call starts only
  // when all others are finished: until then a newer one can replace it. After close(), cancel the new call.
  void add(Job job) {
    std::optional<Job> cancelled;
    {
      std::unique_lock<std::mutex> lock(state_->mutex);
      if (state_->waiting && !job.newest) {
        if (is_callback()) throw Error("a callback cannot wait for room among the calls: use `newest`");
        state_->changed.wait(lock, [this] { return !state_->waiting; });
      }
      cancelled.swap(state_->waiting);
      std::optional<Job> &place = state_->closed ? cancelled : state_->waiting;
      place.emplace(std::move(job));
    }
    state_->changed.notify_all();
    if (cancelled) cancel(*cancelled);
  }

  // Wait until no call runs or waits.
  void wait() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    if (is_callback()) throw Error("a callback cannot wait for the calls");
    state_->changed.wait(lock, [this] { return !state_->waiting && state_->started == 0; });
  }

 private:
  static void cancel(const Job &job) {
    job.finish(std::make_exception_ptr(Cancelled("the call was cancelled: a newer one came, or the session ended")));
  }

  bool is_callback() const {
    auto here = std::this_thread::get_id();
    return here == threads_[0].get_id() || here == threads_[1].get_id();
  }

  // What the threads need. It stays until they end, also if a callback ends the session.
  struct State {
    explicit State(size_t most) : at_once(most) {}

    void start_all() {
      std::unique_lock<std::mutex> lock(mutex);
      while (true) {
        changed.wait(lock, [this] { return waiting ? started < (waiting->newest ? 1 : at_once) : closed; });
        if (!waiting) break;
        std::optional<Started> call(Started{std::move(*waiting), nullptr});
        waiting.reset();
        started++;
        lock.unlock();
        changed.notify_all();
        try {
          call->job.start();
        } catch (...) {
          call->error = std::current_exception();
        }
        call->job.start = nullptr;  // the inputs may be large
        if (at_once == 1) {
          finish(*call);
          call.reset();  // without the lock
        }
        lock.lock();
        if (call) {
          running.push_back(std::move(*call));
        } else {
          started--;
        }
        changed.notify_all();
      }
      ended = true;
      changed.notify_all();
    }

    void finish_all() {
      std::unique_lock<std::mutex> lock(mutex);
      while (true) {
        changed.wait(lock, [this] { return !running.empty() || ended; });
        if (running.empty()) return;
        finish_next(lock);
      }
    }

    void finish_rest() {
      std::unique_lock<std::mutex> lock(mutex);
      while (!running.empty()) finish_next(lock);
    }

    void finish_next(std::unique_lock<std::mutex> &lock) {
      {
        Started call = std::move(running.front());
        running.pop_front();
        lock.unlock();
        finish(call);
      }
      lock.lock();
      started--;
      changed.notify_all();
    }

    struct Started {
      Job job;
      std::exception_ptr error;  // of the start
    };

    static void finish(const Started &call) { call.job.finish(call.error); }

    const size_t at_once;
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Job> waiting;
    std::deque<Started> running;
    size_t started = 0;  // calls that are not finished
    bool closed = false, ended = false;
  };

  std::shared_ptr<State> state_;
  std::thread threads_[2];  // the last member: they use the others
};

}  // namespace tvmbuild::detail
