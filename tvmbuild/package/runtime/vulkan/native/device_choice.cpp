#include "device_choice.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "failure.h"
#include "text.h"

namespace tvmbuild {
namespace {

int rank(const DeviceInfo &info) {
  switch (info.properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 4;
    default:
      return 3;
  }
}

int list_devices(const VulkanLibrary &library, DeviceInfo (&all)[MAX_DEVICES]) {
  VkPhysicalDevice found[MAX_DEVICES] = {};
  uint32_t count = MAX_DEVICES;
  VkResult result = library.vk.EnumeratePhysicalDevices(library.instance, &count, found);
  if (result != VK_SUCCESS && result != VK_INCOMPLETE)
    return fail("Vulkan: no devices can be listed (%s)", describe_result(result)) ? 0 : -1;
  int usable = 0;
  for (uint32_t index = 0; index < count; index++) {
    DeviceInfo info;
    if (!read_device(library, found[index], info)) continue;
    int place = usable++;
    for (; place > 0 && rank(all[place - 1]) > rank(info); place--) all[place] = all[place - 1];
    all[place] = info;
  }
  if (usable == 0 && count == 0) fail("Vulkan: the driver has no device; may this user read /dev/dri (group render)?");
  return usable > 0 ? usable : -1;
}

bool contains(const char *name, const char *part) {
  size_t length = strlen(part);
  for (; *name != 0; name++)
    if (strncasecmp(name, part, length) == 0) return true;
  return false;
}

int find_wish(const DeviceInfo *all, int count, const char *wish) {
  char *end = nullptr;
  long index = strtol(wish, &end, 10);
  if (*end == 0 && index >= 0 && index < MAX_DEVICES)  // a larger number is part of a name: 4090
    return index < count ? static_cast<int>(index) : -1;
  for (int device = 0; device < count; device++)
    if (strcasecmp(all[device].name(), wish) == 0) return device;
  for (int device = 0; device < count; device++)
    if (contains(all[device].name(), wish)) return device;
  return -1;
}

}  // namespace

int choose_devices(const VulkanLibrary &library, DeviceInfo (&chosen)[MAX_DEVICES]) {
  int count = check_left_out_features() ? list_devices(library, chosen) : -1;
  if (count < 0) return -1;
  const char *wish = getenv("TVMBUILD_VULKAN_DEVICE");
  if (wish != nullptr && *wish != 0) {
    int device = find_wish(chosen, count, wish);
    if (device >= 0) {
      chosen[0] = chosen[device];
      return 1;
    }
    Text names;
    for (int index = 0; index < count; index++)
      names.add("%s%d %s", index > 0 ? ", " : "", index, chosen[index].name());
    fail("Vulkan: TVMBUILD_VULKAN_DEVICE=%s names no device; there are %.*s", wish, static_cast<int>(names.size()),
         names.data());
    return -1;
  }
  while (count > 1 && rank(chosen[count - 1]) == 4 && rank(chosen[0]) != 4) count--;
  return count;
}

}  // namespace tvmbuild
