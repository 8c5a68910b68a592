// A thread that handles the newest of the items that come: what comes while it works replaces what waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tvmbuild_detector {

template <typename Item>
class NewestWorker {
 public:
  // `handle` must not throw.
  explicit NewestWorker(std::function<void(Item)> handle) : handle_(std::move(handle)), thread_([this] { work(); }) {}
  // Wait for the item that is being handled. An item that waits is dropped.
  ~NewestWorker() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  NewestWorker(const NewestWorker &) = delete;
  NewestWorker &operator=(const NewestWorker &) = delete;

  // Return at once. An older item that waits is dropped.
  void submit(Item item) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (waiting_) dropped_++;
      waiting_ = std::move(item);
    }
    changed_.notify_one();
  }

  // The number of items that newer ones replaced.
  uint64_t dropped() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return dropped_;
  }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || waiting_.has_value(); });
      if (ended_) return;
      Item item = std::move(*waiting_);
      waiting_.reset();
      lock.unlock();
      handle_(std::move(item));
      lock.lock();
    }
  }

  std::function<void(Item)> handle_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Item> waiting_;
  uint64_t dropped_ = 0;
  bool ended_ = false;
  std::thread thread_;  // the last, because it uses the others
};

}  // namespace tvmbuild_detector
