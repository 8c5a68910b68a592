#include "operations.h"

namespace tvmbuild {

void Operations::add(const Launch &launch, const Place *places, const uint64_t *scalars) {
  uint64_t *words = words_.grow(words_of<Launch>() + words_of<Place>() * launch.places + launch.scalars);
  memcpy(words, &launch, sizeof(Launch));
  words += words_of<Launch>();
  if (launch.places > 0) memcpy(words, places, sizeof(Place) * launch.places);
  words += words_of<Place>() * launch.places;
  if (launch.scalars > 0) memcpy(words, scalars, sizeof(uint64_t) * launch.scalars);
  count_++;
}

void Operations::add(const Copy &copy) {
  memcpy(words_.grow(words_of<Copy>()), &copy, sizeof(Copy));
  count_++;
}

void Operations::clear() {
  words_.clear();
  count_ = 0;
}

void Operations::assign(const Operations &other) {
  words_.assign(other.words_);
  count_ = other.count_;
}

uint64_t Operations::hash() const {
  uint64_t hash = words_.size();
  for (uint64_t word : words_) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

bool Operations::operator==(const Operations &other) const {
  return words_.size() == other.words_.size() &&
         memcmp(words_.data(), other.words_.data(), words_.size() * sizeof(uint64_t)) == 0;
}

}  // namespace tvmbuild
