#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

_Static_assert(CLINUX_INPUT == (unsigned)EPOLLIN && CLINUX_OUTPUT == (unsigned)EPOLLOUT, "as the kernel has them");
_Static_assert(CLINUX_ERROR == (unsigned)EPOLLERR && CLINUX_HUNG_UP == (unsigned)EPOLLHUP, "as the kernel has them");
_Static_assert(CLINUX_EDGE == (unsigned)EPOLLET, "as the kernel has them");

int clinux_poller(void) { return epoll_create1(EPOLL_CLOEXEC); }

int clinux_poller_set(int poller, int descriptor, int is_new, uint32_t events, uint64_t token) {
    struct epoll_event event = {.events = events, .data.u64 = token};
    return epoll_ctl(poller, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event);
}

int clinux_poller_wait(int poller, struct clinux_ready *ready, int capacity, int milliseconds) {
    struct epoll_event events[CLINUX_READY_AT_ONCE];
    if (capacity > CLINUX_READY_AT_ONCE) capacity = CLINUX_READY_AT_ONCE;
    int count = epoll_wait(poller, events, capacity, milliseconds);
    /* A signal ends the wait as a time-out does. */
    if (count < 0 && errno == EINTR) return 0;
    for (int i = 0; i < count; i++) {
        ready[i].token = events[i].data.u64;
        ready[i].events = events[i].events;
    }
    return count;
}

struct thread {
    char name[16];
    void (*run)(void *);
    void *context;
};

static void *begin(void *argument) {
    struct thread thread = *(struct thread *)argument;
    free(argument);
    (void)prctl(PR_SET_NAME, thread.name, 0, 0, 0);
    thread.run(thread.context);
    return NULL;
}

int clinux_start_thread(const char *name, size_t stack, void (*run)(void *), void *context) {
    struct thread *thread = malloc(sizeof *thread);
    if (!thread) return ENOMEM;
    *thread = (struct thread){.run = run, .context = context};
    strncpy(thread->name, name, sizeof thread->name - 1);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack) pthread_attr_setstacksize(&attributes, stack);
    pthread_t id;
    int code = pthread_create(&id, &attributes, begin, thread);
    pthread_attr_destroy(&attributes);
    if (code != 0) free(thread);
    return code;
}

static void do_nothing(int signal) { (void)signal; }

/* A signal that is ignored would interrupt nothing. */
static void handle_interrupts(void) {
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
    (void)sigaction(SIGURG, &action, NULL);
}

void clinux_interrupt_waits(int64_t microseconds) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Thread_local timer_t timer;
    static _Thread_local int has_timer;
    if (has_timer) (void)timer_delete(timer);
    has_timer = 0;
    if (microseconds <= 0) return;
    (void)pthread_once(&once, handle_interrupts);
    sigset_t urgent;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    (void)pthread_sigmask(SIG_UNBLOCK, &urgent, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return;
    const struct timespec time = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};
    const struct itimerspec times = {.it_interval = time, .it_value = time};
    has_timer = 1;
    (void)timer_settime(timer, 0, &times, NULL);
}

int clinux_wakeup(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int clinux_wake(int wakeup) {
    const uint64_t one = 1;
    ssize_t count;
    do {
        count = write(wakeup, &one, sizeof one);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -1 : 0;
}

int clinux_accept(int listener, void *address, uint32_t *length) {
    const uint32_t room = length ? *length : 0;
    int descriptor;
    do {
        if (length) *length = room;
        descriptor = accept4(listener, address, length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

int clinux_has_closed(int socket) {
    struct pollfd entry = {.fd = socket};
    return poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) != 0;
}

long clinux_receive(int socket, void *buffer, size_t capacity) {
    ssize_t count;
    do {
        count = recv(socket, buffer, capacity, 0);
    } while (count < 0 && errno == EINTR);
    return count;
}

long clinux_receive_bytes(int socket, void *buffer, size_t capacity) {
    struct iovec piece = {.iov_base = buffer, .iov_len = capacity};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    ssize_t count;
    do {
        count = recvmsg(socket, &message, MSG_PEEK);
    } while (count < 0 && errno == EINTR);
    if (count <= 0) return count;
    /* There is no room for control data, so the kernel says that some was cut off. What was looked at stays queued. */
    if (message.msg_flags & MSG_CTRUNC) {
        errno = EPERM;
        return -1;
    }
    return clinux_receive(socket, buffer, (size_t)count);
}

long clinux_send(int socket, const void *bytes, size_t length) {
    ssize_t count;
    do {
        count = send(socket, bytes, length, MSG_NOSIGNAL);
    } while (count < 0 && errno == EINTR);
    return count;
}
