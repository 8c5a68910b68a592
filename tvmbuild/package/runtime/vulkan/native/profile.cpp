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

bool read_times(Device &device, const Operations &operations, VkQueryPool queries) {
  List<uint64_t> ticks;
  uint32_t count = 2 * operations.count();
  ticks.grow(count);
  VkResult result =
      device.vk.GetQueryPoolResults(device.handle, queries, 0, count, sizeof(uint64_t) * count, ticks.data(),
                                    sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  if (!check(device, result, "read timestamps")) return false;
  const uint64_t *tick = ticks.begin();
  for (Operation operation : operations) {
    const char *name = operation.is_launch() ? operation.launch().kernel->name : "copy";
    uint64_t passed = (tick[1] - tick[0]) & device.info.timestamp_mask;
    tick += 2;
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
  for (const WorkQueue &queue : device.work_queues) count += queue.operations.count();
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

bool run_profiled(Device &device, const Operations &operations) {
  VkQueryPoolCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = 2 * operations.count();
  VkQueryPool queries = 0;
  if (!check(device, device.vk.CreateQueryPool(device.handle, &info, nullptr, &queries), "create timestamps"))
    return false;
  Recording *recording = record(device, operations, COMPUTE, queries);
  bool is_done = recording != nullptr && submit_recording(device, *recording) &&
                 wait_for(device, recording->last, WhileWaiting::LOCKED) && read_times(device, operations, queries);
  if (recording != nullptr) destroy_recording(device, recording);
  device.vk.DestroyQueryPool(device.handle, queries, nullptr);
  return is_done;
}

}  // namespace tvmbuild
