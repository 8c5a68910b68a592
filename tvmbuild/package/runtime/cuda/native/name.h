// How the sources that all runtimes share call this one.
#pragma once

#define TVMBUILD_KIND "cuda"
#define TVMBUILD_TITLE "CUDA"
