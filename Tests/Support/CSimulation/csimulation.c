#include "csimulation.h"

#include <stdio.h>
#include <stdlib.h>

// Swift's runtime exports these for exactly this use; their convention is Swift's own
// (swift/include/swift/Runtime/Concurrency.h).
#define SWIFTCALL __attribute__((swiftcall))

typedef SWIFTCALL void (*enqueue_original)(void *job);
typedef SWIFTCALL void (*enqueue_hook)(void *job, enqueue_original original);
typedef SWIFTCALL void (*delay_hook)(unsigned long long delay, void *job, void *original);
typedef SWIFTCALL void (*deadline_hook)(
  long long sec, long long nsec, long long tsec, long long tnsec, int clock, void *job, void *original);

extern enqueue_hook swift_task_enqueueGlobal_hook;
extern enqueue_hook swift_task_enqueueMainExecutor_hook;
extern delay_hook swift_task_enqueueGlobalWithDelay_hook;
extern deadline_hook swift_task_enqueueGlobalWithDeadline_hook;
extern SWIFTCALL void swift_job_run(void *job, void *identity, void *implementation);

typedef SWIFTCALL void (*delay_original)(unsigned long long delay, void *job);
typedef SWIFTCALL void (*deadline_original)(
  long long sec, long long nsec, long long tsec, long long tnsec, int clock, void *job);

static bool (*is_ours)(void);
static void (*handler)(void *job);

static SWIFTCALL void taken(void *job, enqueue_original original) {
  if (is_ours())
    handler(job);
  else
    original(job);
}

static void refuse(const char *what) {
  fprintf(stderr, "simulation: %s: this would wait on a real clock\n", what);
  abort();
}

static SWIFTCALL void taken_delayed(unsigned long long delay, void *job, void *original) {
  if (is_ours()) refuse("Task.sleep");
  ((delay_original)original)(delay, job);
}

static SWIFTCALL void taken_deadline(
  long long sec, long long nsec, long long tsec, long long tnsec, int clock, void *job, void *original) {
  if (is_ours()) refuse("a clock's sleep");
  ((deadline_original)original)(sec, nsec, tsec, tnsec, clock, job);
}

void simulation_take_over(bool (*takes)(void), void (*handle)(void *job)) {
  is_ours = takes;
  handler = handle;
  swift_task_enqueueGlobal_hook = taken;
  swift_task_enqueueMainExecutor_hook = taken;
  swift_task_enqueueGlobalWithDelay_hook = taken_delayed;
  swift_task_enqueueGlobalWithDeadline_hook = taken_deadline;
}

// On the generic executor: no actor, no preference.
void simulation_run(void *job) { swift_job_run(job, NULL, NULL); }
