#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#define SECOND 1000000L

/* Time of a suspended machine counts, as with the client that has an event loop. */
static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (int64_t)time.tv_sec * SECOND + time.tv_nsec / 1000;
}

int clinux_wait_input(int socket, int64_t *microseconds) {
    struct pollfd entry = {.fd = socket, .events = POLLIN};
    int endless = *microseconds < 0;
    int64_t end = endless ? 0 : now() + *microseconds;
    int ready;
    do {
        struct timespec left = {.tv_sec = *microseconds / SECOND, .tv_nsec = *microseconds % SECOND * 1000};
        ready = ppoll(&entry, 1, endless ? NULL : &left, NULL);
        if (!endless) {
            *microseconds = end - now();
            if (*microseconds < 0) *microseconds = 0;
        }
    } while (ready < 0 && errno == EINTR);
    return ready;
}

void clinux_limit_sending(int socket, int64_t microseconds) {
    struct timeval limit = {.tv_sec = microseconds / SECOND, .tv_usec = microseconds % SECOND};
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

int clinux_is_unix_stream(int descriptor) {
    int domain = 0, type = 0;
    socklen_t length = sizeof domain;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 || domain != AF_UNIX) return 0;
    length = sizeof type;
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) return 0;
    return fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0;
}

int clinux_keep_over_exec(int descriptor) { return fcntl(descriptor, F_SETFD, 0); }
