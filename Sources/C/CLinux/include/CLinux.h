/* Linux facilities Swift's Glibc overlay cannot name. No GNU type appears here and no
   feature macro is set: both would change what Swift sees of the other system headers. */
#ifndef CLINUX_H
#define CLINUX_H

#include <stddef.h>
#include <stdint.h>

/* Who connected a Unix stream socket, as the kernel recorded it at connect(2). */
struct clinux_peer {
    int32_t pid;  /* 0 where the peer lives in a process-id namespace we cannot see */
    uint32_t uid;
    uint32_t gid;
};

/* SO_PEERCRED. 0, or -1 with errno. */
int clinux_peer_credentials(int socket, struct clinux_peer *peer);

/* SO_PEERGROUPS, the supplementary groups. `capacity` and the result count groups, not bytes.
   Returns how many there are; more than `capacity` means that nothing was written and the
   caller must ask again with room for that many. -1 with errno where it failed. */
long clinux_peer_groups(int socket, uint32_t *groups, size_t capacity);

/* SO_PEERPIDFD (Linux 6.5): a close-on-exec descriptor of the peer process, owned by the
   caller. -1 with errno; ENOPROTOOPT where the kernel lacks it. */
int clinux_peer_pidfd(int socket);

/* The device and the inode of a file, as the kernel has them: no file system is asked, so none can keep the caller waiting. */
int clinux_identity(const char *path, uint64_t *device, uint64_t *inode);

/* pidfd_open(2), close-on-exec. -1 with errno. */
int clinux_pidfd_open(int32_t pid);

/* 1 while the process behind a pidfd has not exited, 0 once it has, -1 with errno. */
int clinux_pidfd_alive(int pidfd);

/* PIDFD_GET_INFO (Linux 6.13): what runs behind a pidfd, in one piece. */
struct clinux_process {
    int32_t pid;
    uint64_t control_group; /* of the unified tree; no other one ever has the same. 0 where it could not be had */
};

/* 0, or -1 with errno: ESRCH once the process has ended and was reaped, before which nobody else has its pid; ENOTTY
   where the kernel lacks it. */
int clinux_pidfd_info(int pidfd, struct clinux_process *process);

/* accept4(2) with SOCK_CLOEXEC | SOCK_NONBLOCK, retried on EINTR. -1 with errno. Where the peer's address is wanted,
   `length` is the room for it before, and its length afterwards: more than the room where it did not fit. */
int clinux_accept(int listener, void *address, uint32_t *length);

/* 1 if the peer has closed a Unix socket: no answer can reach it. A peer that only ended its output has not closed. */
int clinux_has_closed(int socket);

/* recv(2), and send(2) without a signal; retried on EINTR. -1 with errno. */
long clinux_receive(int socket, void *buffer, size_t capacity);
long clinux_send(int socket, const void *bytes, size_t length);

/* Waits until the socket has input or its other end has hung up: 1. 0 once so many microseconds have passed; below 0:
   without end. What is left of them is stored there. -1 with errno. */
int clinux_wait_input(int socket, int64_t *microseconds);

/* SO_SNDTIMEO: how long connect(2) and send(2) wait; then errno is EAGAIN. */
void clinux_limit_sending(int socket, int64_t microseconds);

/* 1 for a Unix stream socket, which is close-on-exec from now on; 0 for anything else. */
int clinux_is_unix_stream(int descriptor);

/* The program that is executed next has the descriptor too. 0, or -1 with errno. */
int clinux_keep_over_exec(int descriptor);

/* SO_PASSRIGHTS 0 (Linux 6.16): who sends descriptors to a connection that the listener gets from now on fails with
   EPERM. 0, or -1 with errno: ENOPROTOOPT where the kernel lacks it. */
int clinux_refuse_descriptors(int listener);

/* The kernel adds no credentials, label or pidfd to what is read, as the unit of an inherited socket may have asked:
   `clinux_receive_bytes` would take them for descriptors. Accepted connections inherit what their listener has. */
void clinux_refuse_notes(int socket);

/* clinux_receive that receives no descriptor: where the next bytes come with one they stay, and errno is EPERM. The
   kernel would close descriptors that are received without room for them, and a close may wait. The socket needs
   SO_OOBINLINE: else recv(2) throws an urgent byte away, and its descriptors with it. */
long clinux_receive_bytes(int socket, void *buffer, size_t capacity);

/* What a descriptor may be ready for, and is: an error and a hang-up are told unasked. */
#define CLINUX_INPUT 0x1u
#define CLINUX_OUTPUT 0x4u
#define CLINUX_ERROR 0x8u
#define CLINUX_HUNG_UP 0x10u /* both ways: nobody reads any more what is written */
/* Told once after each change, and not for as long as it lasts. */
#define CLINUX_EDGE 0x80000000u

/* One that is ready, by the token that it was added with. */
struct clinux_ready {
    uint64_t token;
    uint32_t events;
};
#define CLINUX_READY_AT_ONCE 128

/* epoll_create1(2), close-on-exec; epoll_ctl(2), which adds or changes; epoll_wait(2), where a signal is a time-out.
   -1 with errno. */
int clinux_poller(void);
int clinux_poller_set(int poller, int descriptor, int is_new, uint32_t events, uint64_t token);
int clinux_poller_wait(int poller, struct clinux_ready *ready, int capacity, int milliseconds);

/* A detached thread; of its name 15 bytes count. `stack`: bytes; 0: as usual. 0, or the error of pthread_create(3). */
int clinux_start_thread(const char *name, size_t stack, void (*run)(void *), void *context);

/* From now on SIGURG interrupts the waits of this thread, each time after so many microseconds; 0: no more. A close(2) of
   a socket that lingers (SO_LINGER) ends then, and so does one of a Unix socket with such sockets in its input. The kernel
   ends no wait for a file system, such as FUSE. Nothing where there is no timer for it. */
void clinux_interrupt_waits(int64_t microseconds);

/* eventfd(2), close-on-exec and non-blocking; and what makes it readable. -1 with errno. */
int clinux_wakeup(void);
int clinux_wake(int wakeup);

/* 1 for a listening Unix stream socket, 0 for anything else, -1 with errno. */
int clinux_is_unix_listener(int descriptor);

/* PR_SET_DUMPABLE 0: no core dump, and no ptrace or /proc/self/mem by the same user. 0 or -1. */
int clinux_forbid_dumps(void);

/* RLIMIT_CORE 0, soft and hard. 0 or -1. */
int clinux_forbid_core_files(void);

/* mallopt(3) M_ARENA_MAX: from how many heaps all threads allocate. Nothing where the C library is not glibc. */
void clinux_limit_heaps(int most);

/* malloc_trim(3): the kernel gets the pages of freed memory. It takes some milliseconds for each 10 MB, in which no other
   thread allocates. Nothing where the C library is not glibc. */
void clinux_give_memory_back(void);

/* Unmaps the pages of this program and its libraries that are as in their files: what was needed once, as at the start,
   takes no resident memory until it is used again. It comes back from the page cache then, in microseconds. What a debugger
   wrote into the code, such as its breakpoints, is lost. */
void clinux_forget_program_pages(void);

/* pipe2(2), close-on-exec, with descriptors above the standard ones; the end `own` (0 reads, 1 writes) never waits.
   0, or -1 with errno. */
int clinux_pipe(int ends[2], int own);

/* Starts argv[0], a path, with exactly this environment, with every signal at its default and none blocked, in `folder`
   (null: in ours) and in a process group of its own; with `own_session` in a session of its own. Of our descriptors it has
   the first `count` of these, as 0, 1, 2 and so on, with /dev/null for -1, and no other. 0, or the errno. */
int clinux_spawn(
    char *const argv[], char *const envp[], const int *descriptors, int count, const char *folder, int own_session,
    int32_t *pid);

/* The variables of this process, NAME=value, a null pointer at the end. */
char **clinux_environment(void);

/* 1 once the child has ended; it still has to be reaped. 0 before, and -1 with errno where it is no child. */
int clinux_has_ended(int32_t pid);

/* A close-on-exec, non-blocking netlink socket (NETLINK_ROUTE) that hears of links, addresses and
   routes. -1 with errno: a sandbox may refuse it. */
int clinux_route_socket(void);

/* Asks for all that there is of links (0), addresses (1) or routes (2); the answer ends with NLMSG_DONE.
   0, or -1 with errno. */
int clinux_route_ask(int descriptor, int what);

/* One datagram of netlink messages; 0 where it is not the kernel's. -1 with errno: EAGAIN: none is there;
   ENOBUFS: some were lost. */
long clinux_route_read(int descriptor, void *buffer, size_t capacity);

/* A close-on-exec, non-blocking timer on CLOCK_REALTIME that becomes readable when the clock is set, and else
   never. -1 with errno. Arming it again makes it wait for the next time. */
int clinux_clock_timer(void);
int clinux_clock_timer_arm(int descriptor);

/* Where the pattern first is in the bytes, or -1 (memmem(3)). */
long clinux_find(const void *bytes, size_t count, const void *pattern, size_t length);

/* A TCP socket of this network namespace, as the kernel has it. */
struct clinux_tcp_socket {
    uint32_t uid;   /* of its owner */
    uint32_t inode; /* 0: no process has it open any more, and then the uid is nobody's */
    uint64_t cookie; /* the kernel's number of the socket, never given twice while it runs */
    uint64_t control_group; /* in which it was made, as its id; 0: the kernel does not tell (before Linux 5.7) */
    uint8_t state;  /* as /proc/net/tcp numbers them: 1 established, 4 and 5 half-closed, … */
};

/* The socket that is bound to `own` and connected to `other` (NETLINK_SOCK_DIAG). Both are a sockaddr_in or both a
   sockaddr_in6. 0, or -1 with errno: ENOENT where there is none, or where the kernel has no inet_diag. */
int clinux_tcp_socket(const void *own, const void *other, struct clinux_tcp_socket *found);

/* 1 where clinux_tcp_socket works here, else 0. */
int clinux_tcp_sockets_are_told(void);

/* 1 while neither a reset nor an end of both directions has closed the connection, else 0. */
int clinux_tcp_is_connected(int connection);

/* The file's access control list, as the kernel keeps it (acl(5), posix_acl_xattr.h). How many bytes it has, or -1 with
   errno: ENODATA: the mode says all; ENOTSUP: the file system has no lists. */
long clinux_acl_get(int descriptor, void *list, size_t capacity);
/* 0, or -1 with errno. */
int clinux_acl_set(int descriptor, const void *list, size_t length);

#endif
