/* Preloaded into a program: its wall clock is the machine's and the first seconds in the file $CLOCK_SHIFT, and the time
   since the machine started is the kernel's and the second ones. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *shift;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_SHIFT");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *place = file < 0 ? MAP_FAILED : mmap(NULL, 2 * sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
  shift = place == MAP_FAILED ? NULL : place;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  if (!failed && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift[0];
  if (!failed && shift && clock == CLOCK_BOOTTIME) now->tv_sec += shift[1];
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec time;
  (void)zone;
  int failed = clock_gettime(CLOCK_REALTIME, &time);
  if (!failed) *now = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
  return failed;
}

time_t time(time_t *place) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (place) *place = now.tv_sec;
  return now.tv_sec;
}
