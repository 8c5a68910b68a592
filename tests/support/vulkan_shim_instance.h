// The half of vulkan_shim.cpp that says what devices there are and what they can do.

void change(const Shown &device, VkPhysicalDeviceProperties &properties) {
#define SHIM_LIMIT(name) set(#name, properties.limits.name)
  SHIM_LIMIT(maxStorageBufferRange), SHIM_LIMIT(maxPushConstantsSize), SHIM_LIMIT(maxMemoryAllocationCount);
  SHIM_LIMIT(maxPerStageDescriptorStorageBuffers), SHIM_LIMIT(maxComputeSharedMemorySize);
  SHIM_LIMIT(maxComputeWorkGroupInvocations), SHIM_LIMIT(minStorageBufferOffsetAlignment);
  set("apiVersion", properties.apiVersion);
  if (!device.is_changed) return;
  memcpy(properties.deviceName, device.name, sizeof(device.name));
  properties.deviceType = static_cast<VkPhysicalDeviceType>(device.type);
}

void get_properties(VkPhysicalDevice handle, VkPhysicalDeviceProperties *properties) {
  real.GetPhysicalDeviceProperties(shown_by(handle).real, properties);
  change(shown_by(handle), *properties);
}

struct Chained {
  VkStructureType sType;
  Chained *pNext;
};

void get_properties_2(VkPhysicalDevice handle, VkPhysicalDeviceProperties2 *properties) {
  real.GetPhysicalDeviceProperties2(shown_by(handle).real, properties);
  change(shown_by(handle), properties->properties);
  for (Chained *at = static_cast<Chained *>(properties->pNext); at != nullptr; at = at->pNext)
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) {
      auto *maintenance = reinterpret_cast<VkPhysicalDeviceMaintenance3Properties *>(at);
      set("maxMemoryAllocationSize", maintenance->maxMemoryAllocationSize);
    } else if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES) {
      auto *dot = reinterpret_cast<VkPhysicalDeviceShaderIntegerDotProductProperties *>(at);
      set("integerDotProduct4x8BitPackedSignedAccelerated", dot->integerDotProduct4x8BitPackedSignedAccelerated);
    }
}

void get_memory_properties(VkPhysicalDevice handle, VkPhysicalDeviceMemoryProperties2 *properties) {
  const Shown &device = shown_by(handle);
  real.GetPhysicalDeviceMemoryProperties2(device.real, properties);
  if (!device.is_card()) return;
  VkPhysicalDeviceMemoryProperties &memory = properties->memoryProperties;
  memory = {};
  for (const VkMemoryType &type : CARD_TYPES) memory.memoryTypes[memory.memoryTypeCount++] = type;
  memory.memoryHeapCount = 2;
  memory.memoryHeaps[0] = {heap_size(), VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  memory.memoryHeaps[1] = {8ull << 30, 0};
  for (Chained *at = static_cast<Chained *>(properties->pNext); at != nullptr; at = at->pNext)
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) {
      auto *budget = reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT *>(at);
      budget->heapBudget[0] = heap_size(), budget->heapUsage[0] = device.used;
    }
}

void get_queue_families(VkPhysicalDevice handle, uint32_t *count, VkQueueFamilyProperties *families) {
  uint32_t room = *count, copy_queues = count_copy_queues(shown_by(handle));
  real.GetPhysicalDeviceQueueFamilyProperties(shown_by(handle).real, count, families);
  constexpr VkFlags VIDEO_DECODE = 32;  // NVIDIA's video engines copy, too, and have more queues
  if (copy_queues > 0 && (families == nullptr || room > *count + 1)) {
    if (families != nullptr) {
      families[*count] = {VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT, copy_queues, 0, {1, 1, 1}};
      families[*count + 1] = {VK_QUEUE_TRANSFER_BIT | VIDEO_DECODE, 7, 0, {1, 1, 1}};
    }
    *count += 2;
  }
  for (uint32_t index = 0; families != nullptr && index < *count; index++)
    set("timestampValidBits", families[index].timestampValidBits);
}

VkResult list_extensions(VkPhysicalDevice handle, const char *layer, uint32_t *count, VkExtensionProperties *all) {
  VkResult result = real.EnumerateDeviceExtensionProperties(shown_by(handle).real, layer, count, all);
  bool adds_budget = shown_by(handle).is_card() && !is_hidden("VK_EXT_memory_budget");
  if (all == nullptr) {
    *count += adds_budget;
    return result;
  }
  uint32_t left = 0;
  for (uint32_t index = 0; index < *count; index++)
    if (!is_hidden(all[index].extensionName)) all[left++] = all[index];
  if (adds_budget) strcpy(all[left++].extensionName, "VK_EXT_memory_budget");
  *count = left;
  return result;
}

// Visit the features that SHIM_HIDE may name, with what they are called.
template <class Visit>
void visit_features(VkPhysicalDeviceFeatures &core, void *chain, Visit visit) {
#define SHIM_FEATURE(structure, name) visit(#name, (structure).name)
  SHIM_FEATURE(core, shaderInt16), SHIM_FEATURE(core, shaderInt64), SHIM_FEATURE(core, shaderFloat64);
  for (Chained *at = static_cast<Chained *>(chain); at != nullptr; at = at->pNext) {
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES)
      SHIM_FEATURE(*reinterpret_cast<VkPhysicalDevice16BitStorageFeatures *>(at), storageBuffer16BitAccess);
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES)
      SHIM_FEATURE(*reinterpret_cast<VkPhysicalDevice8BitStorageFeatures *>(at), storageBuffer8BitAccess);
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES) {
      auto *small = reinterpret_cast<VkPhysicalDeviceShaderFloat16Int8Features *>(at);
      SHIM_FEATURE(*small, shaderFloat16), SHIM_FEATURE(*small, shaderInt8);
    }
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
      SHIM_FEATURE(*reinterpret_cast<VkPhysicalDeviceTimelineSemaphoreFeatures *>(at), timelineSemaphore);
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES)
      SHIM_FEATURE(*reinterpret_cast<VkPhysicalDeviceShaderIntegerDotProductFeatures *>(at), shaderIntegerDotProduct);
  }
}

void get_features(VkPhysicalDevice handle, VkPhysicalDeviceFeatures2 *features) {
  real.GetPhysicalDeviceFeatures2(shown_by(handle).real, features);
  visit_features(features->features, features->pNext, [](const char *name, VkBool32 &value) {
    if (is_hidden(name)) value = 0;
  });
}

VkResult create_device(VkPhysicalDevice handle, const VkDeviceCreateInfo *info, const void *no, VkDevice *device) {
  Shown &on = shown_by(handle);
  static int calls[16];
  if (VkResult result = planned("vkCreateDevice", on.index, ++calls[on.index])) return result;
  for (uint32_t index = 0; index < info->enabledExtensionCount; index++)
    if (is_hidden(info->ppEnabledExtensionNames[index])) return VK_ERROR_EXTENSION_NOT_PRESENT;
  auto *features = static_cast<VkPhysicalDeviceFeatures2 *>(const_cast<void *>(info->pNext));
  bool is_missing = false;
  visit_features(features->features, features->pNext,
                 [&](const char *name, const VkBool32 &value) { is_missing |= value && is_hidden(name); });
  if (is_missing) return VK_ERROR_FEATURE_NOT_PRESENT;
  VkDeviceCreateInfo changed = *info;
  changed.queueCreateInfoCount = 1;  // the real device has no other
  on.has_copy_queues = info->queueCreateInfoCount > 1;
  VkResult result = real.CreateDevice(on.real, &changed, no, device);
  if (result == VK_SUCCESS) on.device = *device;
  return result;
}

Shown &find_place(VkInstance instance, uint32_t index) {
  Shown *place = nullptr;
  for (Shown &each : shown) {
    if (each.instance == instance && each.index == static_cast<int>(index)) return each;
    if (each.instance == nullptr && place == nullptr) place = &each;
  }
  if (place == nullptr) abort();
  place->instance = instance;
  place->index = static_cast<int>(index);
  return *place;
}

// Take "name:type" from the text; what follows it.
const char *read_device(const char *text, Shown &device) {
  char type[16] = {};
  sscanf(text, "%255[^:]:%15[^,]", device.name, type);
  for (uint32_t each = 0; each < 5; each++)
    if (strcmp(type, TYPES[each]) == 0) device.type = each;
  device.is_changed = true;
  text += strcspn(text, ",");
  return text + (*text == ',');
}

VkResult list_devices(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices) {
  VkPhysicalDevice found[16] = {};
  uint32_t number = 16;
  VkResult result = real.EnumeratePhysicalDevices(instance, &number, found);
  if (result != VK_SUCCESS) return result;
  if (VkResult wish = planned("vkEnumeratePhysicalDevices", 0, 1)) return wish;
  const char *text = getenv("SHIM_DEVICES");
  uint32_t listed = 0, best = 0;
  for (uint32_t index = 0; index < number; index++) {  // lavapipe, which is alike everywhere
    VkPhysicalDeviceProperties properties;
    real.GetPhysicalDeviceProperties(found[index], &properties);
    if (properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) best = index;
  }
  for (uint32_t index = 0; text == nullptr ? index < number : number > 0 && *text != 0; index++) {
    Shown &device = find_place(instance, index);
    device.real = found[text == nullptr ? index : best];
    if (text != nullptr) text = read_device(text, device);
    if (devices != nullptr && index < *count) devices[index] = reinterpret_cast<VkPhysicalDevice>(&device);
    listed++;
  }
  if (devices == nullptr || *count > listed) *count = listed;
  return *count < listed ? VK_INCOMPLETE : VK_SUCCESS;
}

VulkanFunction find_device_function(VkDevice device, const char *name) {
  VulkanFunction found = real.GetDeviceProcAddr(device, name);
  if (is_hidden(name) || (strcmp(name, "vkCmdPushDescriptorSetKHR") == 0 && is_hidden("VK_KHR_push_descriptor")))
    return nullptr;
#define SHIM_HOOK(function, result, parameters)                            \
  if (strcmp(name, "vk" #function) == 0) {                                 \
    Hooks::function::next = reinterpret_cast<result(*) parameters>(found); \
    return reinterpret_cast<VulkanFunction>(Hooks::function::call);        \
  }
  TVMBUILD_DEVICE_FUNCTIONS(SHIM_HOOK)
  if (strcmp(name, "vkCmdPushDescriptorSetKHR") == 0) {
    push_descriptors = reinterpret_cast<CmdPushDescriptorSet>(found);
    return found == nullptr ? found : reinterpret_cast<VulkanFunction>(push_and_note);
  }
  return found;
}

void open_real() {
  void *library = find_real == nullptr ? dlopen(getenv("SHIM_REAL"), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library != nullptr) find_real = reinterpret_cast<GetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (find_real == nullptr) abort();
}

VkResult create_instance(const VkInstanceCreateInfo *info, const void *no, VkInstance *instance) {
  open_real();
  if (VkResult result = planned("vkCreateInstance", 0, 1)) return result;
  auto create = reinterpret_cast<VkResult (*)(const VkInstanceCreateInfo *, const void *, VkInstance *)>(
      find_real(nullptr, "vkCreateInstance"));
  VkResult result = create(info, no, instance);
  if (result != VK_SUCCESS) return result;
#define SHIM_REAL(name, type, parameters)                                                                       \
  if (VulkanFunction found = find_real(*instance, "vk" #name); found != nullptr) /* a 1.0 instance has fewer */ \
    real.name = reinterpret_cast<type(*) parameters>(found);
  TVMBUILD_INSTANCE_FUNCTIONS(SHIM_REAL)
  return result;
}

VulkanFunction find_function(VkInstance instance, const char *name) {
  static const struct {
    const char *name;
    VulkanFunction function;
  } ours[] = {
#define SHIM_OURS(name, function) {"vk" name, reinterpret_cast<VulkanFunction>(function)}
      SHIM_OURS("CreateInstance", create_instance),
      SHIM_OURS("EnumeratePhysicalDevices", list_devices),
      SHIM_OURS("EnumerateDeviceExtensionProperties", list_extensions),
      SHIM_OURS("GetPhysicalDeviceProperties", get_properties),
      SHIM_OURS("GetPhysicalDeviceProperties2", get_properties_2),
      SHIM_OURS("GetPhysicalDeviceFeatures2", get_features),
      SHIM_OURS("GetPhysicalDeviceMemoryProperties2", get_memory_properties),
      SHIM_OURS("GetPhysicalDeviceQueueFamilyProperties", get_queue_families),
      SHIM_OURS("CreateDevice", create_device),
      SHIM_OURS("GetDeviceProcAddr", find_device_function),
  };
  open_real();
  if (is_hidden(name)) return nullptr;
  for (const auto &each : ours)
    if (strcmp(each.name, name) == 0) return each.function;
  return find_real(instance, name);
}
