// Launches and copies in order. They are stored one after the other in one list of words without gaps, so two lists are
// compared by their words alone. Ids identify memory and kernels: ids are never used again, unlike addresses.
#pragma once
#include <stdint.h>

#include "list.h"

namespace tvmbuild {

struct Kernel;
struct KernelOnDevice;
struct Memory;

enum class OperationKind : uint64_t { LAUNCH = 1, COPY = 2 };

struct Place {
  Memory *memory;
  uint64_t memory_id, offset;
};

// `places` places and `scalars` scalars follow it in the list.
struct Launch {
  OperationKind kind;
  const Kernel *kernel;
  const KernelOnDevice *on;
  uint64_t kernel_id;
  uint32_t groups[3];
  uint16_t places, scalars;
};

struct Copy {
  OperationKind kind;
  Place from, to;
  uint64_t size;
};

template <class T>
constexpr size_t words_of() {
  static_assert(__is_trivially_copyable(T) && __has_unique_object_representations(T), "its bytes are compared");
  static_assert(sizeof(T) % sizeof(uint64_t) == 0, "it lies in a list of words");
  return sizeof(T) / sizeof(uint64_t);
}

// One operation of a list, valid until the list changes.
class Operation {
 public:
  explicit Operation(const uint64_t *words) : words_(words) {}

  bool is_launch() const { return read<OperationKind>(0) == OperationKind::LAUNCH; }
  Launch launch() const { return read<Launch>(0); }
  Place place(size_t index) const { return read<Place>(words_of<Launch>() + words_of<Place>() * index); }
  const uint64_t *scalars() const { return words_ + words_of<Launch>() + words_of<Place>() * launch().places; }
  Copy copy() const { return read<Copy>(0); }

  const uint64_t *end() const { return is_launch() ? scalars() + launch().scalars : words_ + words_of<Copy>(); }

 private:
  template <class T>
  T read(size_t at) const {
    static_assert(words_of<T>() > 0);
    T value;
    memcpy(&value, words_ + at, sizeof(T));
    return value;
  }

  const uint64_t *words_;
};

class Operations {
 public:
  class Iterator {
   public:
    explicit Iterator(const uint64_t *words) : words_(words) {}
    Operation operator*() const { return Operation(words_); }
    Iterator &operator++() {
      words_ = Operation(words_).end();
      return *this;
    }
    bool operator!=(const Iterator &other) const { return words_ != other.words_; }

   private:
    const uint64_t *words_;
  };

  Iterator begin() const { return Iterator(words_.begin()); }
  Iterator end() const { return Iterator(words_.end()); }
  uint32_t count() const { return count_; }

  void add(const Launch &launch, const Place *places, const uint64_t *scalars);
  void add(const Copy &copy);
  void clear();
  void assign(const Operations &other);

  uint64_t hash() const;
  bool operator==(const Operations &other) const;

 private:
  List<uint64_t> words_;
  uint32_t count_ = 0;
};

}  // namespace tvmbuild
