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

/* pidfd_open(2), close-on-exec. -1 with errno. */
int clinux_pidfd_open(int32_t pid);

/* 1 while the process behind a pidfd has not exited, 0 once it has, -1 with errno. */
int clinux_pidfd_alive(int pidfd);

/* accept4(2) with SOCK_CLOEXEC | SOCK_NONBLOCK, retried on EINTR. -1 with errno. */
int clinux_accept(int listener);

/* 1 for a listening Unix stream socket, 0 for anything else, -1 with errno. */
int clinux_is_unix_listener(int descriptor);

/* PR_SET_DUMPABLE 0: no core dump, and no ptrace or /proc/self/mem by the same user. 0 or -1. */
int clinux_forbid_dumps(void);

/* RLIMIT_CORE 0, soft and hard. 0 or -1. */
int clinux_forbid_core_files(void);

#endif
