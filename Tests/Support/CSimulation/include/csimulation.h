#ifndef CSIMULATION_H
#define CSIMULATION_H

// From now on every job of Swift's global executor goes to `taken` instead of a thread of its pool, and whatever would
// wait on a real clock ends the process: nothing of a simulation may depend on one.
void simulation_take_over(void (*taken)(void *job));

// Runs a job that was taken, on this thread, to its next suspension.
void simulation_run(void *job);

#endif
