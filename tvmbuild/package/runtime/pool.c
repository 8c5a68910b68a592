/* The threads of a package's parallel loops, in place of the TVM runtime's pool.
 *
 * TVM's threads wait for each other by sched_yield(): on a machine with other work, each wait may give a whole time
 * slice away, and a model takes ten times as long. These threads spin for a while, then sleep. A thread that would wait
 * for another one to begin takes over its share instead.
 *
 * Linked into mod.so. A loader that knows the pool calls tvmbuild_pool_start() and sets __TVMBackendParallelLaunch to
 * tvmbuild_pool_launch; with other loaders the package runs on TVM's pool.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256
#define WORKER_LOOKS_NS 1000000 /* longer than the serial parts between the loops of one inference */
#define CALLER_LOOKS_NS 200000  /* then its core may be what a worker waits for */
#define LOOKS_A_CLOCK 32

typedef struct { /* TVMParallelGroupEnv of tvm/runtime/c_backend_api.h */
  void *sync_handle;
  int32_t num_task;
} Group;
typedef int (*Loop)(int task, Group *group, void *data); /* FTVMParallelLambda */

/* From tvm/ffi/c_api.h: each thread has the error of its failed call. Weak, because a test has no runtime. */
#define OF_THE_RUNTIME extern __attribute__((weak, visibility("default")))
OF_THE_RUNTIME void TVMFFIErrorMoveFromRaised(void **error);
OF_THE_RUNTIME void TVMFFIErrorSetRaised(void *error);
OF_THE_RUNTIME int TVMFFIObjectDecRef(void *object);

static pthread_t workers[MAX_THREADS];
static int count;   /* the number of workers */
static pid_t owner; /* a forked child has no workers */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static atomic_int stopping;

static Loop job_loop;
static void *job_data;
static Group job_group;
static _Alignas(64) _Atomic uint64_t claims;     /* upper half: the round; lower half: the number of untaken shares */
static _Alignas(64) _Atomic uint32_t rounds;     /* workers wait for it */
static _Alignas(64) _Atomic uint32_t unfinished; /* the caller waits for it */
static _Atomic(void *) job_error;                /* the error of a failed share */
static _Alignas(64) atomic_int failed, sleeping_workers, sleeping_caller;

static void look(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

static void sleep_on(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, MAX_THREADS, NULL, NULL, 0); }

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Spin until the word is (or is no longer) `value`; return whether that happened within the time. */
static int looked_long_enough(_Atomic uint32_t *word, uint32_t value, int equal, int64_t limit_ns) {
  int64_t end = 0;
  for (;;) {
    for (int i = 0; i < LOOKS_A_CLOCK; i++) {
      if ((atomic_load_explicit(word, memory_order_acquire) == value) == equal) return 1;
      look();
    }
    int64_t now = now_ns();
    if (end == 0) end = now + limit_ns;
    if (now >= end) return 0;
  }
}

static void keep_error(void) {
  void *error = NULL;
  if (TVMFFIErrorMoveFromRaised != NULL) TVMFFIErrorMoveFromRaised(&error);
  error = atomic_exchange(&job_error, error);
  if (error != NULL) TVMFFIObjectDecRef(error);
}

static void raise_error(void) {
  void *error = atomic_exchange(&job_error, NULL);
  if (error == NULL) return;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
}

/* Take shares of that round until none is left. A taken share keeps the job from changing. */
static void work(uint32_t round) {
  uint64_t seen = atomic_load(&claims);
  while ((uint32_t)(seen >> 32) == round && (uint32_t)seen != 0) {
    if (!atomic_compare_exchange_weak(&claims, &seen, seen - 1)) continue;
    if (job_loop((int)(uint32_t)seen - 1, &job_group, job_data) != 0) {
      keep_error();
      atomic_store(&failed, 1);
    }
    if (atomic_fetch_sub(&unfinished, 1) == 1 && atomic_load(&sleeping_caller)) wake(&unfinished);
    seen = atomic_load(&claims);
  }
}

static void *serve(void *argument) {
  uint32_t seen = (uint32_t)(uintptr_t)argument;
  while (!atomic_load(&stopping)) {
    if (!looked_long_enough(&rounds, seen, 0, WORKER_LOOKS_NS)) {
      atomic_fetch_add(&sleeping_workers, 1);
      while (atomic_load(&rounds) == seen && !atomic_load(&stopping)) sleep_on(&rounds, seen);
      atomic_fetch_sub(&sleeping_workers, 1);
    }
    seen = atomic_load(&rounds);
    work(seen);
  }
  return NULL;
}

static int run_alone(Loop loop, void *data, int tasks) {
  Group group = {NULL, tasks};
  int result = 0;
  for (int task = 0; task < tasks; task++) result |= loop(task, &group, data);
  return result ? -1 : 0;
}

/* Start the workers that make `threads` together with the caller; 0 if they exist. A library that is loaded again has
 * them already. */
__attribute__((visibility("default"))) int tvmbuild_pool_start(int threads) {
  if (count > 0) return count == threads - 1 && owner == getpid() ? 0 : -1; /* loaded again */
  if (threads < 1 || threads > MAX_THREADS) return -1;
  owner = getpid();
  sigset_t all, before;
  sigfillset(&all); /* the caller handles signals, except those of a fault */
  int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (count < threads - 1 &&
         pthread_create(&workers[count], NULL, serve, (void *)(uintptr_t)atomic_load(&rounds)) == 0)
    count++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return count == threads - 1 ? 0 : -1;
}

/* TVMBackendParallelLaunch: run loop(0 … tasks - 1); `tasks` 0 means one for each thread. -1 if one of them failed. */
__attribute__((visibility("default"))) int tvmbuild_pool_launch(Loop loop, void *data, int tasks) {
  if (tasks == 0) tasks = count + 1;
  if (tasks == 1 || count == 0) return run_alone(loop, data, tasks);
  if (getpid() != owner || atomic_flag_test_and_set(&busy)) return run_alone(loop, data, tasks); /* or nested */
  job_loop = loop;
  job_data = data;
  job_group = (Group){NULL, tasks};
  atomic_store(&failed, 0);
  atomic_store(&unfinished, (uint32_t)tasks);
  uint32_t round = atomic_load(&rounds) + 1;
  atomic_store(&claims, ((uint64_t)round << 32) | (uint32_t)tasks);
  atomic_store(&rounds, round);
  if (atomic_load(&sleeping_workers)) wake(&rounds);
  work(round);
  if (!looked_long_enough(&unfinished, 0, 1, CALLER_LOOKS_NS)) {
    atomic_store(&sleeping_caller, 1);
    for (uint32_t left; (left = atomic_load(&unfinished)) != 0;) sleep_on(&unfinished, left);
    atomic_store(&sleeping_caller, 0);
  }
  int result = atomic_load(&failed) ? -1 : 0;
  if (result != 0) raise_error();
  atomic_flag_clear(&busy);
  return result;
}

/* The library may be unloaded while its process goes on. */
__attribute__((destructor)) static void stop(void) {
  if (count == 0 || getpid() != owner) return;
  atomic_store(&stopping, 1);
  atomic_fetch_add(&rounds, 1);
  wake(&rounds);
  while (count > 0) pthread_join(workers[--count], NULL);
}
