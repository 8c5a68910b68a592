#include "copies.h"

#include "failure.h"
#include "lock.h"
#include "pipeline_cache.h"

namespace tvmbuild {
namespace {

constexpr size_t MIN_STAGING = 1 << 20, MAX_STAGING = 16 << 20, STAGING_ALIGNMENT = 256;
constexpr size_t LONG_COPY = 64 << 10;  // some microseconds, as long as it takes to wake a thread

size_t round_up(size_t size) { return (size + STAGING_ALIGNMENT - 1) / STAGING_ALIGNMENT * STAGING_ALIGNMENT; }

bool find_range(Device &device, uint64_t address, size_t size, bool is_written, Binding &binding) {
  Memory *memory = find_memory(device, address);
  if (memory == nullptr || size > memory->size - (address - memory->address))
    return fail("Vulkan: a copy of %zu bytes reaches beyond the memory of %s", size, device.info.name());
  binding = {memory, address - memory->address, is_written};
  return true;
}

// Find a place for `size` bytes, at most MAX_STAGING, in the queue's staging memory. Equal sequences of copies must get
// equal places, because a recording is found by its places.
bool reserve_staging(Device &device, int queue, size_t size, Binding &place) {
  WorkQueue &mine = device.work_queues[queue];
  size = round_up(size);
  if (mine.staging == nullptr || mine.staging_used + size > mine.staging->size) {
    if (!wait_for_queue(device, queue)) return false;  // then all of it is free
    if (mine.staging == nullptr || mine.staging->size < size * 2) {
      size_t wanted = MIN_STAGING;
      while (wanted < size * 2 && wanted < MAX_STAGING) wanted *= 2;
      if (mine.staging == nullptr || wanted > mine.staging->size) {
        Memory *larger = allocate_memory(device, wanted, MemoryUse::STAGING);
        if (larger == nullptr) return false;
        if (mine.staging != nullptr) {
          forget_memory(device, mine.staging);
          release_memory(device, mine.staging);
        }
        mine.staging = larger;
      }
    }
  }
  place = {mine.staging, mine.staging_used, false};
  mine.staging_used += size;
  return true;
}

char *host_address(const Binding &place) { return place.memory->mapped + place.offset; }

// Others may use the device meanwhile, but not the queue's staging memory.
void copy_into(Device &device, int queue, char *place, const char *from, size_t size) {
  bool is_shared = queue == MAX_WORK_QUEUES - 1;
  if (is_shared || size < LONG_COPY) {
    memcpy(place, from, size);
    return;
  }
  Unlock unlock(device.lock);
  memcpy(place, from, size);
}

bool upload(Device &device, const char *from, Binding to, size_t size) {
  int queue = current_queue(device);
  for (size_t done = 0; done < size;) {
    size_t part = size - done < MAX_STAGING ? size - done : MAX_STAGING;
    Binding place;
    if (!reserve_staging(device, queue, part, place)) return false;
    copy_into(device, queue, host_address(place), from + done, part);
    if (!add_copy(device, queue, place, {to.memory, to.offset + done, true}, part)) return false;
    done += part;
  }
  return true;
}

bool download(Device &device, Binding from, char *to, size_t size) {
  int queue = current_queue(device);
  for (size_t done = 0; done < size;) {
    size_t part = size - done < MAX_STAGING ? size - done : MAX_STAGING;
    Binding place;
    if (!reserve_staging(device, queue, part, place)) return false;
    place.is_written = true;
    if (!add_copy(device, queue, {from.memory, from.offset + done, false}, place, part)) return false;
    if (!wait_for_queue(device, queue)) return false;
    memcpy(to + done, host_address(place), part);
    done += part;
  }
  return true;
}

// Copies that fit into staging memory together: one submission, one wait.
bool download_together(Device &device, const List<HostCopy> &copies, const List<Binding> &sources, size_t all) {
  int queue = current_queue(device);
  Binding room;
  if (!reserve_staging(device, queue, all, room)) return false;
  Binding place = room;
  place.is_written = true;
  for (size_t index = 0; index < copies.size(); index++) {
    if (!add_copy(device, queue, sources[index], place, copies[index].size)) return false;
    place.offset += round_up(copies[index].size);
  }
  if (!wait_for_queue(device, queue)) return false;
  for (const HostCopy &copy : copies) {
    memcpy(copy.to, host_address(room), copy.size);
    room.offset += round_up(copy.size);
  }
  return true;
}

// Begin to copy through staging memory or, where the CPU reads the device's memory, note what is to be copied.
bool begin_downloads(Device &device, int queue, const List<HostCopy> &copies, const List<Binding> &sources) {
  WorkQueue &mine = device.work_queues[queue];
  size_t staged = 0;
  for (size_t index = 0; index < copies.size(); index++)
    if (sources[index].memory->mapped == nullptr) staged += round_up(copies[index].size);
  Binding room = {};
  if (staged > 0 && !reserve_staging(device, queue, staged, room)) return false;
  room.is_written = true;
  for (size_t index = 0; index < copies.size(); index++) {
    const Binding &source = sources[index];
    const HostCopy &copy = copies[index];
    if (source.memory->mapped != nullptr) {
      if (!flush_others(device, queue, source) || !check_fresh(device, source)) return false;
      mine.delivered_after.reach(source.memory->uses);
      mine.deliveries.add({host_address(source), copy.to, copy.size});
    } else {
      if (!add_copy(device, queue, source, room, copy.size)) return false;
      mine.deliveries.add({host_address(room), copy.to, copy.size});
      room.offset += round_up(copy.size);
    }
  }
  if (!flush_queue(device, queue)) return false;
  mine.delivered_after.reach(mine.last);
  return true;
}

// Wait for all work of a queue, and deliver the bytes of copies that were begun. Others may use the device meanwhile.
bool finish_downloads(Device &device, int queue) {
  WorkQueue &mine = device.work_queues[queue];
  if (!end_inference(device, queue)) return false;
  List<Delivery> deliveries;
  deliveries.assign(mine.deliveries);
  mine.deliveries.clear();
  size_t used = mine.staging_used;
  const Progress last = mine.last;
  Progress all = mine.delivered_after;
  all.reach(last);
  if (!wait_for(device, all)) return false;
  {
    Unlock unlock(device.lock);
    for (const Delivery &each : deliveries) memcpy(each.to, each.from, each.size);
  }
  if (mine.staging_used == used && mine.last == last && mine.operations.count() == 0) mine.staging_used = 0;
  save_pipelines_now_and_then(device);
  return true;
}

bool download_each(Device &device, const List<HostCopy> &copies) {
  for (const HostCopy &copy : copies)
    if (!copy_to_host(device, copy.from, copy.to, copy.size)) return false;
  return true;
}

}  // namespace

bool allocate(Device &device, size_t size, MemoryUse use, void **address) {
  Lock lock(device.lock);
  Memory *memory = allocate_memory(device, size, use);
  if (memory == nullptr) return false;
  add_memory(device, memory);
  *address = reinterpret_cast<void *>(memory->address);
  return true;
}

void release(Device &device, void *address) {
  Lock lock(device.lock);
  Memory *memory = find_memory(device, reinterpret_cast<uint64_t>(address));
  if (memory == nullptr || memory->address != reinterpret_cast<uint64_t>(address)) return;
  if (!device.is_lost) wait_for_memory(device, memory, true);
  remove_memory(device, memory);
  forget_memory(device, memory);
  release_memory(device, memory);
}

bool copy_to_device(Device &device, const void *from, uint64_t to, size_t size) {
  if (size == 0) return true;
  char *place = nullptr;
  {
    Lock lock(device.lock);
    Binding target;
    if (!check_alive(device) || !find_range(device, to, size, true, target)) return false;
    target.memory->is_stale = false;
    if (target.memory->mapped == nullptr) return upload(device, static_cast<const char *>(from), target, size);
    place = host_address(target);
    if (!wait_for_memory(device, target.memory, true)) return false;
  }
  memcpy(place, from, size);
  return true;
}

bool copy_from_host(Device &device, const void *from, uint64_t to, size_t size) {
  if (size == 0) return true;
  {
    Lock lock(device.lock);
    Binding source, target;
    bool is_known = find_memory(device, reinterpret_cast<uint64_t>(from)) != nullptr;
    if (!check_alive(device) || !find_range(device, to, size, true, target) ||
        (is_known && !find_range(device, reinterpret_cast<uint64_t>(from), size, false, source)))
      return false;
    if (is_known && target.memory->mapped == nullptr) {
      target.memory->is_stale = false;
      return add_copy(device, current_queue(device), source, target, size);
    }
  }
  return copy_to_device(device, from, to, size);
}

bool copy_to_host(Device &device, uint64_t from, void *to, size_t size) {
  if (size == 0) return true;
  const char *place = nullptr;
  {
    Lock lock(device.lock);
    Binding source;
    if (!check_alive(device) || !find_range(device, from, size, false, source)) return false;
    if (source.memory->mapped == nullptr) {
      bool is_done = download(device, source, static_cast<char *>(to), size);
      save_pipelines_now_and_then(device);
      return is_done;
    }
    place = host_address(source);
    if (!wait_for_queue(device, current_queue(device)) || !wait_for_memory(device, source.memory, false) ||
        !check_fresh(device, source))
      return false;
    save_pipelines_now_and_then(device);
  }
  memcpy(to, place, size);
  return true;
}

bool copy_all_to_host(Device &device, const List<HostCopy> &copies) {
  List<Binding> sources;
  size_t all = 0;
  bool is_staged = copies.size() > 1;
  {
    Lock lock(device.lock);
    if (!check_alive(device)) return false;
    for (const HostCopy &copy : copies) {
      Binding source;
      if (!find_range(device, copy.from, copy.size, false, source)) return false;
      is_staged &= source.memory->mapped == nullptr;
      all += round_up(copy.size);
      sources.add(source);
    }
    if (is_staged && all <= MAX_STAGING) {
      bool is_done = download_together(device, copies, sources, all);
      save_pipelines_now_and_then(device);
      return is_done;
    }
  }
  return download_each(device, copies);
}

bool begin_copies_to_host(Device &device, WorkQueue *stream, const List<HostCopy> &copies) {
  List<Binding> sources;
  size_t all = 0;
  {
    Lock lock(device.lock);
    int queue = static_cast<int>(stream - device.work_queues);
    if (!check_alive(device) || !end_inference(device, current_queue(device))) return false;
    for (const HostCopy &copy : copies) {
      Binding source;
      if (!find_range(device, copy.from, copy.size, false, source)) return false;
      all += round_up(copy.size);
      sources.add(source);
    }
    bool is_shared = queue == MAX_WORK_QUEUES - 1;  // with another lane, whose bytes must not be delivered here
    if (all <= MAX_STAGING && !is_shared) {
      size_t before = stream->deliveries.size();
      bool is_begun = begin_downloads(device, queue, copies, sources);
      if (!is_begun && stream->deliveries.size() > before) stream->deliveries.shrink(before);
      return is_begun;
    }
  }
  return download_each(device, copies);
}

bool copy_within(Device &device, uint64_t from, uint64_t to, size_t size) {
  if (size == 0 || from == to) return true;
  Lock lock(device.lock);
  Binding source, target;
  if (!check_alive(device) || !find_range(device, from, size, false, source) ||
      !find_range(device, to, size, true, target))
    return false;
  if (source.memory == target.memory && source.offset < target.offset + size && target.offset < source.offset + size)
    return fail("Vulkan: a copy within one memory overlaps itself");
  return add_copy(device, current_queue(device), source, target, size);
}

bool copy_between(Device &source, uint64_t from, Device &target, uint64_t to, size_t size) {
  List<char> bytes;
  bytes.grow(size < MAX_STAGING ? size : MAX_STAGING);
  for (size_t done = 0; done < size; done += MAX_STAGING) {
    size_t part = size - done < MAX_STAGING ? size - done : MAX_STAGING;
    if (!copy_to_host(source, from + done, bytes.data(), part) ||
        !copy_to_device(target, bytes.data(), to + done, part))
      return false;
  }
  return true;
}

bool synchronize(Device &device, WorkQueue *stream) {
  Lock lock(device.lock);
  if (!check_alive(device)) return false;
  int queue = stream != nullptr ? static_cast<int>(stream - device.work_queues) : current_queue(device);
  if (device.work_queues[queue].deliveries.size() > 0) return finish_downloads(device, queue);
  if (!wait_for_queue(device, queue)) return false;
  save_pipelines_now_and_then(device);
  return true;
}

}  // namespace tvmbuild
