/* The threads of parallel loops, in place of the TVM runtime's pool. All packages of a process share them.
 *
 * TVM's threads wait for each other by sched_yield(): on a machine with other work, each wait may give a whole time
 * slice away, and a model takes ten times as long. These threads spin for a while, then sleep. A thread that would wait
 * for another one to begin takes over its share instead.
 *
 * Linked into mod.so, whose SONAME is libtvmbuild-pool.so.1. A loader finds the first package of the process by this
 * name, the host, and its threads serve all others. It calls tvmbuild_pool_join() of the host, tvmbuild_pool_use() of
 * the package, and sets the package's __TVMBackendParallelLaunch to its tvmbuild_pool_launch. A loader that knows no
 * host calls tvmbuild_pool_start(). With other loaders the package runs on TVM's pool.
 *
 * A team is the threads for one set of cores. No more of them are awake than its cores that no caller uses, and no
 * thread of another team whose cores are among these.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256
#define MAX_TEAMS 16
#define MAX_JOBS 16
#define MASK_WORDS 16           /* 1024 cores */
#define LEAST_LOOKS_NS 50000    /* a wake-up takes about as long */
#define WORKER_LOOKS_NS 1000000 /* longer than the serial parts between the loops of one inference */
#define CALLER_LOOKS_NS 200000  /* then its core may be what a worker waits for */
#define BETWEEN_LOOPS_NS 50000  /* so long a caller counts as running, although it is in no loop */
#define LOOKS_A_CLOCK 32
#define CLOCKS_A_COUNT 16 /* counting the callers takes their cache lines away */
#define INSIDE INT64_MAX

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
#define EXPORTED __attribute__((visibility("default")))

typedef struct { /* a loop that a caller runs */
  Loop loop;
  void *data;
  Group group;
  atomic_int priority;                      /* workers look at it before they have a share, when it may change */
  _Alignas(64) _Atomic uint64_t claims;     /* upper half: the round; lower half: the number of untaken shares */
  _Alignas(64) _Atomic uint32_t unfinished; /* the caller waits for it */
  atomic_int failed, sleeping_caller;
  _Atomic(void *) error; /* the error of a failed share */
} Job;

typedef struct {
  _Alignas(64) _Atomic uint32_t rounds;        /* workers wait for it */
  _Alignas(64) _Atomic int64_t left[MAX_JOBS]; /* when the job's last caller left it, or INSIDE */
  _Alignas(64) atomic_int sleeping;            /* workers */
  atomic_int demand;                           /* the workers that the callers' loops could use */
  atomic_int count, limit;                     /* the workers, and the threads that may run at once */
  int wanted, pinned;
  uint64_t cores[MASK_WORDS];
  Job jobs[MAX_JOBS];
  pthread_t workers[MAX_THREADS];
} Team;

static Team teams[MAX_TEAMS];
static atomic_int team_count;
static atomic_uint inside[MAX_TEAMS];           /* for each team, a bit for every team whose cores are among its own */
static atomic_flag changing = ATOMIC_FLAG_INIT; /* held for changes of teams and their workers */
static atomic_int owner;                        /* a forked child has no workers */
static atomic_int stopping;

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

static void wake(_Atomic uint32_t *word, int threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The callers in a loop, or so long after one. */
static int count_callers(Team *team, int64_t now, int64_t after) {
  int count = 0;
  for (int i = 0; i < MAX_JOBS; i++) {
    int64_t left = atomic_load_explicit(&team->left[i], memory_order_relaxed);
    if (left == 0) break; /* jobs are taken from the first on */
    count += left == INSIDE || now - left < after;
  }
  return count;
}

static int count_awake(Team *team) { return atomic_load(&team->count) - atomic_load(&team->sleeping); }

/* The cores of one team for more workers of `asking`, whose cores are among them. Of the others, those without a caller
 * in a loop do not count: their workers go to sleep, and their caller may be the one that now asks. */
static int count_cores_left(int place, Team *asking, int64_t now) {
  unsigned members = atomic_load_explicit(&inside[place], memory_order_relaxed);
  int left = atomic_load(&teams[place].limit);
  for (int i = 0; members >> i != 0; i++) {
    if ((members >> i & 1) == 0) continue;
    int is_own = &teams[i] == asking;
    int callers = count_callers(&teams[i], now, is_own ? BETWEEN_LOOPS_NS : 0);
    if (callers != 0 || is_own) left -= callers + count_awake(&teams[i]);
  }
  return left;
}

/* The cores for more workers; negative if too many are awake. */
static int count_free_cores(Team *team, int64_t now) {
  unsigned own = 1u << (team - teams);
  int least = INT_MAX, known = atomic_load_explicit(&team_count, memory_order_acquire);
  for (int i = 0; i < known; i++) {
    if ((atomic_load_explicit(&inside[i], memory_order_relaxed) & own) == 0) continue;
    int left = count_cores_left(i, team, now);
    if (left < least) least = left;
  }
  return least;
}

static void keep_error(Job *job) {
  void *error = NULL;
  if (TVMFFIErrorMoveFromRaised != NULL) TVMFFIErrorMoveFromRaised(&error);
  error = atomic_exchange(&job->error, error);
  if (error != NULL) TVMFFIObjectDecRef(error);
}

static void raise_error(Job *job) {
  void *error = atomic_exchange(&job->error, NULL);
  if (error == NULL) return;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
}

/* Take shares until none is left; return whether there was one. A taken share keeps the job from changing. */
static int work(Job *job) {
  int took = 0;
  uint64_t seen = atomic_load(&job->claims);
  while ((uint32_t)seen != 0) {
    if (!atomic_compare_exchange_weak(&job->claims, &seen, seen - 1)) continue;
    took = 1;
    if (job->loop((int)(uint32_t)seen - 1, &job->group, job->data) != 0) {
      keep_error(job);
      atomic_store(&job->failed, 1);
    }
    if (atomic_fetch_sub(&job->unfinished, 1) == 1 && atomic_load(&job->sleeping_caller)) wake(&job->unfinished, 1);
    seen = atomic_load(&job->claims);
  }
  return took;
}

/* Take shares of the most urgent loop; return whether there was one. */
static int help(Team *team) {
  Job *best = NULL;
  int most = 0;
  for (int i = 0; i < MAX_JOBS && atomic_load_explicit(&team->left[i], memory_order_relaxed) != 0; i++) {
    Job *job = &team->jobs[i];
    if ((uint32_t)atomic_load(&job->claims) == 0) continue;
    int priority = atomic_load_explicit(&job->priority, memory_order_relaxed);
    if (best == NULL || priority > most) best = job, most = priority;
  }
  return best != NULL && work(best);
}

/* Spin until a loop begins; return the time, or 0 if none began, or if the cores belong to callers. */
static int64_t look_for_a_round(Team *team, uint32_t seen, int64_t end) {
  for (int clocks = 1;; clocks++) {
    for (int i = 0; i < LOOKS_A_CLOCK; i++) {
      if (atomic_load_explicit(&team->rounds, memory_order_acquire) != seen) return now_ns();
      look();
    }
    int64_t now = now_ns();
    if (now >= end || atomic_load(&stopping)) return 0;
    if (clocks % CLOCKS_A_COUNT == 0 && count_free_cores(team, now) < 0) return 0;
  }
}

static void *serve(void *argument) {
  Team *team = argument;
  if (team->pinned) syscall(SYS_sched_setaffinity, 0, sizeof(team->cores), team->cores);
  int64_t idle = now_ns(), begun = idle;
  int64_t longest = WORKER_LOOKS_NS / 2; /* of the recent waits that a share followed in time */
  while (!atomic_load(&stopping)) {
    uint32_t seen = atomic_load(&team->rounds);
    int crowded = count_free_cores(team, begun) < 0;
    if (!crowded && help(team)) {
      longest -= longest / 512;
      if (begun - idle < WORKER_LOOKS_NS && begun - idle > longest) longest = begun - idle;
      idle = begun = now_ns();
      continue;
    }
    int64_t looks = 2 * longest < LEAST_LOOKS_NS ? LEAST_LOOKS_NS : 2 * longest;
    int64_t end = idle + (looks < WORKER_LOOKS_NS ? looks : WORKER_LOOKS_NS);
    begun = crowded ? 0 : look_for_a_round(team, seen, end);
    if (begun != 0) continue;
    atomic_fetch_add(&team->sleeping, 1);
    while (atomic_load(&team->rounds) == seen && !atomic_load(&stopping)) sleep_on(&team->rounds, seen);
    atomic_fetch_sub(&team->sleeping, 1);
    begun = now_ns();
  }
  return NULL;
}

static int run_alone(Loop loop, void *data, int tasks) {
  Group group = {NULL, tasks};
  int result = 0;
  for (int task = 0; task < tasks; task++) result |= loop(task, &group, data);
  return result ? -1 : 0;
}

static void start_workers(Team *team, int wanted) {
  sigset_t all, before;
  sigfillset(&all); /* the caller handles signals, except those of a fault */
  int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int count = atomic_load(&team->count);
  while (count < wanted && pthread_create(&team->workers[count], NULL, serve, team) == 0)
    atomic_store(&team->count, ++count);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* In a forked child, which has the memory and one thread: start the workers again. */
static void begin_in_child(int parent) {
  if (!atomic_compare_exchange_strong(&owner, &parent, -1)) return; /* another thread does it */
  atomic_flag_clear(&changing);
  for (int i = 0; i < team_count; i++) {
    int count = atomic_exchange(&teams[i].count, 0);
    atomic_store(&teams[i].sleeping, 0);
    atomic_store(&teams[i].demand, 0);
    for (int j = 0; j < MAX_JOBS; j++) {
      if (atomic_load(&teams[i].left[j]) == INSIDE) atomic_store(&teams[i].left[j], 1);
      atomic_store(&teams[i].jobs[j].claims, 0);
    }
    start_workers(&teams[i], count);
  }
  atomic_store(&owner, getpid());
}

static int is_ours(void) {
  int process = getpid(), before = atomic_load(&owner);
  if (before != process && before > 0) begin_in_child(before);
  return atomic_load(&owner) == process;
}

static int is_within(const Team *inner, const Team *outer) {
  for (int i = 0; i < MASK_WORDS; i++)
    if ((inner->cores[i] & ~outer->cores[i]) != 0) return 0;
  return 1;
}

static Team *find_team(const uint64_t *cores, int pinned) {
  for (int i = 0; i < team_count; i++)
    if (teams[i].pinned == pinned && memcmp(teams[i].cores, cores, sizeof(teams[i].cores)) == 0) return &teams[i];
  int place = atomic_load(&team_count);
  if (place == MAX_TEAMS) return NULL;
  Team *team = &teams[place];
  memcpy(team->cores, cores, sizeof(team->cores));
  team->pinned = pinned;
  for (int i = 0; i <= place; i++) {
    if (is_within(team, &teams[i])) atomic_fetch_or(&inside[i], 1u << place);
    if (is_within(&teams[i], team)) atomic_fetch_or(&inside[place], 1u << i);
  }
  atomic_store(&team_count, place + 1);
  return team;
}

/* Return the team for these cores, with workers for one more caller of loops in `threads` shares; NULL if there are too
 * many teams. No more than `limit` threads of the team and its callers run at once. If `pinned`, its threads stay on
 * the cores, else they inherit them. */
EXPORTED void *tvmbuild_pool_join(const uint64_t *cores, int pinned, int limit, int threads) {
  int none = 0;
  atomic_compare_exchange_strong(&owner, &none, getpid());
  if (threads < 1 || threads > MAX_THREADS || limit < threads || !is_ours()) return NULL;
  while (atomic_flag_test_and_set(&changing)) look();
  Team *team = find_team(cores, pinned);
  if (team != NULL) {
    atomic_store(&team->limit, limit);
    team->wanted += threads - 1;
    int most = limit < MAX_THREADS ? limit : MAX_THREADS;
    if (team->wanted > most - 1) team->wanted = most - 1;
    start_workers(team, team->wanted);
  }
  atomic_flag_clear(&changing);
  return team;
}

/* Return the number of threads that a caller has with the team's workers. */
EXPORTED int tvmbuild_pool_threads(void *team) { return atomic_load(&((Team *)team)->count) + 1; }

static Job *take_job(Team *team) {
  for (int i = 0; i < MAX_JOBS; i++) {
    int64_t left = atomic_load_explicit(&team->left[i], memory_order_relaxed);
    if (left != INSIDE && atomic_compare_exchange_strong(&team->left[i], &left, INSIDE)) return &team->jobs[i];
  }
  return NULL;
}

static void wake_workers(Team *team) {
  int sleeping = atomic_load(&team->sleeping);
  if (sleeping == 0) return;
  int missing = atomic_load(&team->demand) - count_awake(team);
  if (missing <= 0) return;
  int room = count_free_cores(team, now_ns());
  if (room > 0) wake(&team->rounds, missing < room ? missing : room);
}

static void wait_for_shares(Job *job) {
  int64_t end = 0;
  for (;;) {
    for (int i = 0; i < LOOKS_A_CLOCK; i++) {
      if (atomic_load_explicit(&job->unfinished, memory_order_acquire) == 0) return;
      look();
    }
    int64_t now = now_ns();
    if (end == 0) end = now + CALLER_LOOKS_NS;
    if (now >= end) break;
  }
  atomic_store(&job->sleeping_caller, 1);
  for (uint32_t left; (left = atomic_load(&job->unfinished)) != 0;) sleep_on(&job->unfinished, left);
  atomic_store(&job->sleeping_caller, 0);
}

/* Run loop(0 … tasks - 1) by the caller and the team; -1 if one of them failed. */
EXPORTED int tvmbuild_pool_run(void *group, Loop loop, void *data, int tasks, int priority) {
  Team *team = group;
  if (tasks == 1 || atomic_load(&team->count) == 0 || !is_ours()) return run_alone(loop, data, tasks);
  Job *job = take_job(team);
  if (job == NULL) return run_alone(loop, data, tasks);
  job->loop = loop;
  job->data = data;
  job->group = (Group){NULL, tasks};
  atomic_store_explicit(&job->priority, priority, memory_order_relaxed);
  atomic_store(&job->failed, 0);
  atomic_store(&job->unfinished, (uint32_t)tasks);
  uint64_t round = (atomic_load(&job->claims) >> 32) + 1;
  atomic_store(&job->claims, (round << 32) | (uint32_t)tasks);
  atomic_fetch_add(&team->demand, tasks - 1);
  atomic_fetch_add(&team->rounds, 1);
  wake_workers(team);
  work(job);
  wait_for_shares(job);
  atomic_fetch_sub(&team->demand, tasks - 1);
  int result = atomic_load(&job->failed) ? -1 : 0;
  if (result != 0) raise_error(job);
  atomic_store(&team->left[job - team->jobs], now_ns());
  return result;
}

/* The package's place at the host. */
static int (*run)(void *, Loop, void *, int, int) = tvmbuild_pool_run;
static void *joined;
static int shares, urgency;
static int (*release)(void *);
static void *host;

/* Let this package's loops run in `threads` shares on the team, which a host's tvmbuild_pool_join() has returned, by
 * the host's tvmbuild_pool_run(). Its workers take shares of the highest priority first. When the package is unloaded,
 * it calls close(handle), for example dlclose() of the host. */
EXPORTED void tvmbuild_pool_use(void *team, int threads, int priority, void *host_run, int (*close)(void *),
                                void *handle) {
  run = (int (*)(void *, Loop, void *, int, int))host_run;
  joined = team;
  shares = threads;
  urgency = priority;
  release = close;
  host = handle;
}

/* Start an own team of `threads` with the caller; 0 if it exists. A library that is loaded again has it already. */
EXPORTED int tvmbuild_pool_start(int threads) {
  if (joined != NULL) return shares == threads && is_ours() ? 0 : -1;
  uint64_t everywhere[MASK_WORDS];
  memset(everywhere, 0xff, sizeof(everywhere));
  Team *team = tvmbuild_pool_join(everywhere, 0, threads, threads);
  if (team == NULL || atomic_load(&team->count) < threads - 1) return -1;
  tvmbuild_pool_use(team, threads, 0, (void *)tvmbuild_pool_run, NULL, NULL);
  return 0;
}

/* TVMBackendParallelLaunch; `tasks` 0 means one for each thread. */
EXPORTED int tvmbuild_pool_launch(Loop loop, void *data, int tasks) {
  if (tasks == 0) tasks = shares > 0 ? shares : 1;
  if (tasks == 1 || joined == NULL) return run_alone(loop, data, tasks);
  return run(joined, loop, data, tasks, urgency);
}

/* The library may be unloaded while its process goes on. */
__attribute__((destructor)) static void stop(void) {
  if (atomic_load(&owner) == getpid()) {
    atomic_store(&stopping, 1);
    for (int i = 0; i < team_count; i++) {
      atomic_fetch_add(&teams[i].rounds, 1);
      wake(&teams[i].rounds, MAX_THREADS);
      int count = atomic_exchange(&teams[i].count, 0);
      while (count > 0) pthread_join(teams[i].workers[--count], NULL);
    }
  }
  if (release != NULL) release(host);
}
