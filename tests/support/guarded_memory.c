// Aligned memory, as TVM allocates tensors, that ends where a page ends, for LD_PRELOAD: an access beyond the end of a
// tensor (but for less than the alignment), before its first page, or after its release ends the process.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096ul
#define RESERVED (1ul << 38)

static _Atomic(char *) reserved;
static atomic_size_t used;

static char *reserve(void) {
  char *all = atomic_load(&reserved);
  if (all != NULL) return all;
  char *mine = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mine == MAP_FAILED) abort();
  if (atomic_compare_exchange_strong(&reserved, &all, mine)) return mine;
  munmap(mine, RESERVED);
  return all;
}

static size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

// A page with the size, the pages of the memory, and a page that nobody may touch.
int posix_memalign(void **place, size_t alignment, size_t size) {
  size_t length = round_up(size == 0 ? 1 : size, alignment), pages = round_up(length, PAGE);
  if (alignment > PAGE) return ENOMEM;
  char *first = reserve() + atomic_fetch_add(&used, pages + 2 * PAGE);
  if (first + pages + 2 * PAGE > atomic_load(&reserved) + RESERVED) return ENOMEM;
  if (mprotect(first, PAGE + pages, PROT_READ | PROT_WRITE) != 0) return ENOMEM;
  *(size_t *)first = pages;
  mprotect(first, PAGE, PROT_READ);
  *place = first + PAGE + pages - length;
  return 0;
}

void *aligned_alloc(size_t alignment, size_t size) {
  void *place = NULL;
  return posix_memalign(&place, alignment, size) == 0 ? place : NULL;
}

void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

void free(void *place) {
  static void (*others)(void *);
  char *all = atomic_load(&reserved), *byte = place;
  if (all != NULL && byte >= all && byte < all + RESERVED) {
    char *first = (char *)((uintptr_t)byte / PAGE * PAGE) - PAGE;
    size_t pages = *(size_t *)first;
    madvise(first, PAGE + pages, MADV_DONTNEED);
    mprotect(first, PAGE + pages, PROT_NONE);
    return;
  }
  if (others == NULL) others = (void (*)(void *))dlsym(RTLD_NEXT, "free");
  others(place);
}
