#pragma once
#include <pthread.h>

namespace tvmbuild {

// Holds a mutex for its lifetime.
class Lock {
 public:
  explicit Lock(pthread_mutex_t &mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock &) = delete;
  Lock &operator=(const Lock &) = delete;

 private:
  pthread_mutex_t &mutex_;
};

// Holds a mutex for its lifetime, unless another thread holds it.
class TryLock {
 public:
  explicit TryLock(pthread_mutex_t &mutex) : mutex_(mutex), is_held_(pthread_mutex_trylock(&mutex) == 0) {}
  ~TryLock() {
    if (is_held_) pthread_mutex_unlock(&mutex_);
  }
  TryLock(const TryLock &) = delete;
  TryLock &operator=(const TryLock &) = delete;

  bool is_held() const { return is_held_; }

 private:
  pthread_mutex_t &mutex_;
  const bool is_held_;
};

// Releases a mutex that the caller holds, for its lifetime.
class Unlock {
 public:
  explicit Unlock(pthread_mutex_t &mutex) : mutex_(mutex) { pthread_mutex_unlock(&mutex_); }
  ~Unlock() { pthread_mutex_lock(&mutex_); }
  Unlock(const Unlock &) = delete;
  Unlock &operator=(const Unlock &) = delete;

 private:
  pthread_mutex_t &mutex_;
};

}  // namespace tvmbuild
