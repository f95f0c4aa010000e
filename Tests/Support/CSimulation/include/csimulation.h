#ifndef CSIMULATION_H
#define CSIMULATION_H

#include <stdbool.h>

// From now on every job of Swift's global executor that is enqueued while `takes` returns true goes to `taken` instead of
// a thread of its pool, and a wait on a real clock then ends the process: a simulation must not depend on one. Other jobs
// go to Swift's own executor.
void simulation_take_over(bool (*takes)(void), void (*taken)(void *job));

// Runs a job that was taken, on this thread, to its next suspension.
void simulation_run(void *job);

#endif
