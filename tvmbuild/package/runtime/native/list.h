// A growing array of plain values. The C++ library's would tie us to one of the two in the process.
#pragma once
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace tvmbuild {

template <class T>
class List {
  static_assert(__is_trivially_copyable(T), "values are moved by realloc");

 public:
  List() = default;
  ~List() { free(items_); }
  List(const List &) = delete;
  List &operator=(const List &) = delete;

  size_t size() const { return size_; }
  T *data() { return items_; }
  const T *data() const { return items_; }
  T *begin() { return items_; }
  T *end() { return items_ + size_; }
  const T *begin() const { return items_; }
  const T *end() const { return items_ + size_; }
  T &operator[](size_t index) { return items_[index]; }
  const T &operator[](size_t index) const { return items_[index]; }
  T &back() { return items_[size_ - 1]; }

  // Make room for `count` more values, which the caller fills.
  T *grow(size_t count) {
    if (size_ + count > room_) {
      room_ = (size_ + count) * 2;
      items_ = static_cast<T *>(realloc(items_, room_ * sizeof(T)));
      if (items_ == nullptr) abort();  // no memory is left for a message
    }
    size_ += count;
    return items_ + size_ - count;
  }
  void add(const T &value) {
    T copy = value;  // it may lie in this list
    *grow(1) = copy;
  }
  void insert(size_t index, const T &value) {
    T copy = value;
    grow(1);
    memmove(items_ + index + 1, items_ + index, (size_ - 1 - index) * sizeof(T));
    items_[index] = copy;
  }
  void remove(size_t index) {
    memmove(items_ + index, items_ + index + 1, (size_ - 1 - index) * sizeof(T));
    size_--;
  }
  void shrink(size_t size) { size_ = size; }
  void clear() { size_ = 0; }
  void assign(const List &other) {
    clear();
    if (other.size_ > 0) memcpy(grow(other.size_), other.items_, other.size_ * sizeof(T));
  }

 private:
  T *items_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

// `new` and `delete` without the C++ library.
struct OnHeap {
  static void *operator new(size_t size) {
    void *place = calloc(1, size);
    if (place == nullptr) abort();
    return place;
  }
  static void operator delete(void *place) { free(place); }
};

}  // namespace tvmbuild
