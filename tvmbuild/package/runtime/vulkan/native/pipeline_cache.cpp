#include "pipeline_cache.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "crc32.h"
#include "device.h"

namespace tvmbuild {
namespace {

constexpr uint64_t PAUSE_S = 10;  // a search for schedules makes pipelines all the time
constexpr long MAX_BYTES = 256 << 20;

char folder[2048];

struct Header {
  char magic[8];
  uint32_t driver, crc;
  uint64_t bytes;
};
constexpr char MAGIC[8] = {'t', 'v', 'm', 'b', 'P', 'I', 'P', 1};

uint64_t now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) + 1;
}

bool path_of(const Device &device, char (&path)[2304]) {
  if (folder[0] == 0) return false;
  char uuid[33];
  for (size_t index = 0; index < 16; index++) snprintf(uuid + 2 * index, 3, "%02x", device.info.uuid[index]);
  snprintf(path, sizeof(path), "%s/%s-%08x.bin", folder, uuid, device.info.properties.driverVersion);
  return true;
}

// Drivers should check the data, but not all of them survive a damaged file.
bool read_file(const Device &device, List<char> &data) {
  char path[2304];
  FILE *file = path_of(device, path) ? fopen(path, "rbe") : nullptr;
  if (file == nullptr) return false;
  Header header;
  bool is_whole = fread(&header, sizeof(header), 1, file) == 1 && memcmp(header.magic, MAGIC, sizeof(MAGIC)) == 0 &&
                  header.driver == device.info.properties.driverVersion && header.bytes <= MAX_BYTES;
  if (is_whole) {
    size_t bytes = static_cast<size_t>(header.bytes);
    data.grow(bytes);
    is_whole =
        fread(data.data(), 1, bytes, file) == bytes && fgetc(file) == EOF && crc32(data.data(), bytes) == header.crc;
  }
  fclose(file);
  // After the length and version of Vulkan's own header: vendor, device, and the cache's identity.
  const VkPhysicalDeviceProperties &properties = device.info.properties;
  return is_whole && data.size() >= 32 && memcmp(data.data() + 8, &properties.vendorID, 4) == 0 &&
         memcmp(data.data() + 12, &properties.deviceID, 4) == 0 &&
         memcmp(data.data() + 16, properties.pipelineCacheUUID, 16) == 0;
}

// Make the folder and its parents.
void make_folder() {
  char path[sizeof(folder)];
  memcpy(path, folder, sizeof(path));
  for (char *at = path + 1; *at != 0; at++) {
    if (*at != '/') continue;
    *at = 0;
    mkdir(path, 0777);
    *at = '/';
  }
  mkdir(path, 0777);
}

bool write_file(const Device &device, const List<char> &data) {
  char path[2304], mine[2400];
  if (!path_of(device, path)) return false;
  make_folder();
  snprintf(mine, sizeof(mine), "%s.%d", path, static_cast<int>(getpid()));
  FILE *file = fopen(mine, "wbe");
  if (file == nullptr) return false;
  Header header = {{}, device.info.properties.driverVersion, crc32(data.data(), data.size()), data.size()};
  memcpy(header.magic, MAGIC, sizeof(MAGIC));
  bool is_written =
      fwrite(&header, sizeof(header), 1, file) == 1 && fwrite(data.data(), 1, data.size(), file) == data.size();
  is_written = fclose(file) == 0 && is_written && rename(mine, path) == 0;
  if (!is_written) unlink(mine);
  return is_written;
}

}  // namespace

void set_pipeline_folder(const char *path) { snprintf(folder, sizeof(folder), "%s", path); }

void open_pipeline_cache(Device &device) {
  List<char> data;
  VkPipelineCacheCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  if (read_file(device, data)) info.initialDataSize = data.size(), info.pInitialData = data.data();
  if (device.vk.CreatePipelineCache(device.handle, &info, nullptr, &device.pipeline_cache) == VK_SUCCESS) return;
  device.pipeline_cache = 0;  // pipelines can be made without a cache
}

void save_pipeline_cache(Device &device) {
  if (device.unsaved_pipelines == 0 || device.pipeline_cache == 0 || device.is_lost) return;
  device.unsaved_pipelines = 0;
  device.saved_at = now_s();
  List<char> data;
  size_t bytes = 0;
  if (device.vk.GetPipelineCacheData(device.handle, device.pipeline_cache, &bytes, nullptr) != VK_SUCCESS) return;
  data.grow(bytes);
  if (device.vk.GetPipelineCacheData(device.handle, device.pipeline_cache, &bytes, data.data()) != VK_SUCCESS) return;
  data.shrink(bytes);
  write_file(device, data);
}

void save_pipelines_now_and_then(Device &device) {
  if (device.unsaved_pipelines > 0 && (device.saved_at == 0 || now_s() - device.saved_at >= PAUSE_S))
    save_pipeline_cache(device);
}

}  // namespace tvmbuild
