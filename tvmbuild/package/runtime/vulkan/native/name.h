// How the sources that all runtimes share call this one.
#pragma once

#define TVMBUILD_KIND "vulkan"
#define TVMBUILD_TITLE "Vulkan"
