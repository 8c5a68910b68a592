#include "profile.h"

#include "device.h"
#include "failure.h"
#include "kernel.h"
#include "lock.h"

namespace tvmbuild {
namespace {

void add_time(Device &device, const char *name, double nanoseconds) {
  OperationTime time = {};
  memcpy(time.name, name, strlen(name));
  time.nanoseconds = nanoseconds;
  device.times.add(time);
}

bool read_times(Device &device, const List<uint64_t> &words, uint32_t operations, VkQueryPool queries) {
  List<uint64_t> ticks;
  ticks.grow(2 * operations);
  VkResult result =
      device.vk.GetQueryPoolResults(device.handle, queries, 0, 2 * operations, 16 * static_cast<size_t>(operations),
                                    ticks.data(), 8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  if (!check(device, result, "read timestamps")) return false;
  const uint64_t *word = words.begin();
  for (uint32_t index = 0; index < operations; index++, word += operation_size(word)) {
    const char *name = *word == LAUNCH ? reinterpret_cast<const Kernel *>(word[1])->name : "copy";
    uint64_t passed = (ticks[2 * index + 1] - ticks[2 * index]) & device.info.timestamp_mask;
    add_time(device, name, static_cast<double>(passed) * static_cast<double>(device.info.limits().timestampPeriod));
  }
  return true;
}

}  // namespace

bool start_profile(Device &device) {
  Lock lock(device.lock);
  if (device.info.timestamp_mask == 0) return fail("Vulkan: %s has no timestamps", device.info.name());
  if (!wait_for_all(device)) return false;
  device.times.clear();
  device.is_profiling = true;
  return true;
}

int64_t count_profiled(Device &device) {
  Lock lock(device.lock);
  size_t count = device.times.size();
  for (const WorkQueue &queue : device.work_queues) count += queue.operations;
  return static_cast<int64_t>(count);
}

bool stop_profile(Device &device, Text &json) {
  Lock lock(device.lock);
  bool is_done = wait_for_all(device);
  device.is_profiling = false;
  if (!is_done) return false;
  json.add("[");
  const char *comma = "";
  for (const OperationTime &each : device.times) {
    json.add("%s{\"name\": ", comma);
    json.add_string(each.name);
    json.add(", \"us\": %.3f}", each.nanoseconds / 1000);
    comma = ", ";
  }
  json.add("]");
  device.times.clear();
  return true;
}

bool run_profiled(Device &device, const List<uint64_t> &words, uint32_t operations, uint64_t &number) {
  VkQueryPoolCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = 2 * operations;
  VkQueryPool queries = 0;
  if (!check(device, device.vk.CreateQueryPool(device.handle, &info, nullptr, &queries), "create timestamps"))
    return false;
  Recording *recording = record(device, words, queries);
  bool is_done = recording != nullptr && submit(device, recording->commands, number) &&
                 wait_for(device, number, WhileWaiting::LOCKED) && read_times(device, words, operations, queries);
  if (recording != nullptr) destroy_recording(device, recording);
  device.vk.DestroyQueryPool(device.handle, queries, nullptr);
  return is_done;
}

}  // namespace tvmbuild
