// The parts in which a batch is computed, package/parts.py's twin, and the copies of parts of arrays. A part of
// tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <vector>

namespace tvmbuild::detail {

// A size of the batch that has a function: its rows, the time of a call, and the function's place.
struct SizeCost {
  int64_t rows, cost;
  size_t place;
};

// A call of a function for some rows of the batch. No rows: all of the inputs.
struct BatchPart {
  size_t place;
  int64_t start, count;
};

// Return the sizes with the least time whose sum is at least the number of rows.
inline std::vector<int64_t> cover_rows(int64_t rows, const std::vector<SizeCost> &costs) {
  using Best = std::tuple<int64_t, int64_t, int64_t>;  // time, calls, the size of the last call, negative
  std::vector<Best> best = {{0, 0, 0}};
  for (int64_t count = 1; count <= rows; count++) {
    std::vector<Best> ways;
    for (const SizeCost &each : costs) {
      const Best &before = best[static_cast<size_t>(std::max<int64_t>(0, count - each.rows))];
      ways.emplace_back(std::get<0>(before) + each.cost, std::get<1>(before) + 1, -each.rows);
    }
    best.push_back(*std::min_element(ways.begin(), ways.end()));
  }
  std::vector<int64_t> found;
  while (rows > 0) {
    found.push_back(-std::get<2>(best[static_cast<size_t>(rows)]));
    rows -= found.back();
  }
  return found;
}

// Return the calls that compute a number of rows, the largest first, padding the last. A size that is exactly that of
// the rows is one call. Otherwise the least sum of times decides, and among equal ones fewer calls.
inline std::vector<BatchPart> split_batch(int64_t rows, std::vector<SizeCost> costs) {
  std::sort(costs.begin(), costs.end(), [](const SizeCost &a, const SizeCost &b) { return a.rows < b.rows; });
  auto rate = [](const SizeCost &each) { return static_cast<double>(each.cost) / static_cast<double>(each.rows); };
  std::vector<int64_t> sizes;
  for (const SizeCost &each : costs) {
    if (each.rows == rows) sizes = {rows};
  }
  if (sizes.empty()) {
    const SizeCost *bulk = costs.data();
    for (const SizeCost &each : costs) {
      if (rate(each) <= rate(*bulk)) bulk = &each;
    }
    int64_t far = rows - 2 * costs.back().rows;  // far from the end, only the rate counts
    int64_t many = far > 0 ? far / bulk->rows : 0;
    sizes = cover_rows(rows - many * bulk->rows, costs);
    sizes.insert(sizes.end(), static_cast<size_t>(many), bulk->rows);
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
  }
  std::vector<BatchPart> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    auto found = std::find_if(costs.begin(), costs.end(), [&](const SizeCost &each) { return each.rows == size; });
    parts.push_back({found->place, start, std::min(size, rows - start)});
    start += parts.back().count;
  }
  return parts;
}

// Return the number of bytes from one index of an axis to the next.
inline size_t stride_of(const std::vector<int64_t> &shape, size_t axis, size_t size) {
  for (size_t each = axis + 1; each < shape.size(); each++) size *= static_cast<size_t>(shape[each]);
  return size;
}

// Copy a block that begins both arrays, which are of the same rank, row by row.
inline void copy_region(const char *from, const std::vector<int64_t> &from_shape, char *to,
                        const std::vector<int64_t> &to_shape, const std::vector<int64_t> &common, size_t size) {
  size_t rank = common.size(), rows = 1;
  std::vector<int64_t> at(rank, 0);
  for (size_t axis = 0; axis + 1 < rank; axis++) rows *= static_cast<size_t>(common[axis]);
  size_t run = (rank == 0 ? 1 : static_cast<size_t>(common.back())) * size;
  if (run == 0) return;
  for (size_t row = 0; row < rows; row++) {
    size_t source = 0, target = 0;
    for (size_t axis = 0; axis < rank; axis++) {
      source = source * static_cast<size_t>(from_shape[axis]) + static_cast<size_t>(at[axis]);
      target = target * static_cast<size_t>(to_shape[axis]) + static_cast<size_t>(at[axis]);
    }
    std::memcpy(to + target * size, from + source * size, run);
    for (size_t axis = rank < 2 ? 0 : rank - 1; axis-- > 0;) {
      if (++at[axis] < common[axis]) break;
      at[axis] = 0;
    }
  }
}

// Copy the common part of two arrays of the same rank.
inline void copy_block(const char *from, const std::vector<int64_t> &from_shape, char *to,
                       const std::vector<int64_t> &to_shape, size_t size) {
  std::vector<int64_t> common(from_shape.size());
  for (size_t axis = 0; axis < common.size(); axis++) common[axis] = std::min(from_shape[axis], to_shape[axis]);
  copy_region(from, from_shape, to, to_shape, common, size);
}

}  // namespace tvmbuild::detail
