#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <string.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int clinux_peer_credentials(int socket, struct clinux_peer *peer) {
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return -1;
    peer->pid = credentials.pid;
    peer->uid = credentials.uid;
    peer->gid = credentials.gid;
    return 0;
}

long clinux_peer_groups(int socket, uint32_t *groups, size_t capacity) {
    /* NGROUPS_MAX is 65536: a larger capacity is never needed, and its bytes must fit socklen_t. */
    if (capacity > 65536) capacity = 65536;
    socklen_t length = (socklen_t)(capacity * sizeof *groups);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &length) != 0 && errno != ERANGE) return -1;
    return (long)(length / sizeof *groups);
}

int clinux_identity(const char *path, uint64_t *device, uint64_t *inode) {
    struct statx found;
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &found) != 0) return -1;
    *device = makedev(found.stx_dev_major, found.stx_dev_minor);
    *inode = found.stx_ino;
    return 0;
}

int clinux_peer_pidfd(int socket) {
    int pidfd = -1;
    socklen_t length = sizeof pidfd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) != 0) return -1;
    return pidfd;
}

int clinux_pidfd_open(int32_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

int clinux_pidfd_alive(int pidfd) {
    struct pollfd entry = {.fd = pidfd, .events = POLLIN};
    int ready;
    do {
        ready = poll(&entry, 1, 0);
    } while (ready < 0 && errno == EINTR);
    if (ready < 0) return -1;
    if (entry.revents & POLLNVAL) {
        errno = EBADF;
        return -1;
    }
    return ready == 0;
}

/* As in <linux/pidfd.h> of Linux 6.13, which the build may not have. Later kernels append to it. */
struct pidfd_info_64 {
    uint64_t mask;
    uint64_t cgroupid;
    uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_info_64) == 64, "PIDFD_INFO_SIZE_VER0");
#define PIDFD_GET_INFO_64 _IOWR(0xFF, 11, struct pidfd_info_64)
#define PIDFD_INFO_CGROUPID_64 (UINT64_C(1) << 2)

int clinux_pidfd_info(int pidfd, struct clinux_process *process) {
    struct pidfd_info_64 info = {.mask = PIDFD_INFO_CGROUPID_64};
    if (ioctl(pidfd, PIDFD_GET_INFO_64, &info) != 0) return -1;
    process->pid = (int32_t)info.tgid;
    process->control_group = info.mask & PIDFD_INFO_CGROUPID_64 ? info.cgroupid : 0;
    return 0;
}

int clinux_is_unix_listener(int descriptor) {
    int domain = 0, type = 0, listening = 0;
    socklen_t length = sizeof domain;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return errno == ENOTSOCK ? 0 : -1;
    length = sizeof type;
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0) return -1;
    length = sizeof listening;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0) return -1;
    return domain == AF_UNIX && type == SOCK_STREAM && listening != 0;
}

int clinux_refuse_descriptors(int listener) {
    const int no = 0;
    return setsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no);
}

void clinux_refuse_notes(int socket) {
    const int no = 0, notes[] = {SO_PASSCRED, SO_PASSSEC, SO_PASSPIDFD};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        (void)setsockopt(socket, SOL_SOCKET, notes[i], &no, sizeof no);
}

int clinux_forbid_dumps(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

int clinux_forbid_core_files(void) {
    const struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_CORE, &none);
}

void clinux_limit_heaps(int most) {
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, most);
#else
    (void)most;
#endif
}

void clinux_give_memory_back(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Whether the dynamic linker wrote into what is read-only now: those pages are in no file. */
static int has_text_relocations(const struct dl_phdr_info *info, const ElfW(Phdr) *dynamic) {
    for (const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + dynamic->p_vaddr); entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL))) return 1;
    }
    return 0;
}

static int forget_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC && has_text_relocations(info, &info->dlpi_phdr[i])) return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W)) continue;
        uintptr_t begin = (info->dlpi_addr + part->p_vaddr + page - 1) & ~(page - 1);
        uintptr_t end = (info->dlpi_addr + part->p_vaddr + part->p_memsz) & ~(page - 1);
        if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    return 0;
}

void clinux_forget_program_pages(void) { dl_iterate_phdr(forget_object, NULL); }

int clinux_pipe(int ends[2], int own) {
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    for (int i = 0; i < 2; i++) {
        if (ends[i] > 2) continue;
        /* A standard descriptor was closed when we started: the child's would fall on it. */
        int moved = fcntl(ends[i], F_DUPFD_CLOEXEC, 3);
        close(ends[i]);
        ends[i] = moved;
    }
    if (ends[0] >= 0 && ends[1] >= 0 && fcntl(ends[own], F_SETFL, O_NONBLOCK) == 0) return 0;
    int code = errno;
    if (ends[0] >= 0) close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
    errno = code;
    return -1;
}

static int place(posix_spawn_file_actions_t *actions, int descriptor, int as) {
    if (descriptor < 0) return posix_spawn_file_actions_addopen(actions, as, "/dev/null", O_RDWR, 0);
    return posix_spawn_file_actions_adddup2(actions, descriptor, as);
}

/* Copies those that another one would be placed on before they are placed themselves; 0, or the errno. `own` gets what is
   placed, -1 for /dev/null. */
static int keep_apart(const int *descriptors, int count, int *own) {
    for (int i = 0; i < count; i++) own[i] = descriptors[i];
    for (int i = 0; i < count; i++) {
        if (own[i] < 0 || own[i] >= count || own[i] == i) continue;
        own[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, count);
        if (own[i] < 0) return errno;
    }
    return 0;
}

char **clinux_environment(void) { return environ; }

int clinux_spawn(
    char *const argv[], char *const envp[], const int *descriptors, int count, const char *folder, int own_session,
    int32_t *pid) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int *own = calloc((size_t)count, sizeof *own);
    if (!own) return ENOMEM;
    int code = posix_spawnattr_init(&attributes);
    if (code != 0) {
        free(own);
        return code;
    }
    code = posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        posix_spawnattr_destroy(&attributes);
        free(own);
        return code;
    }
    int group = own_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes, (short)(group | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    pid_t child = 0;
    code = keep_apart(descriptors, count, own);
    for (int i = 0; i < count && code == 0; i++) code = place(&actions, own[i], i);
    if (code == 0 && (code = posix_spawn_file_actions_addclosefrom_np(&actions, count)) == 0 &&
        (!folder || (code = posix_spawn_file_actions_addchdir_np(&actions, folder)) == 0))
        code = posix_spawn(&child, argv[0], &actions, &attributes, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    for (int i = 0; i < count; i++)
        if (own[i] >= 0 && own[i] != descriptors[i]) close(own[i]);
    free(own);
    if (code == 0) *pid = child;
    return code;
}

int clinux_has_ended(int32_t pid) {
    siginfo_t info = {0};
    int result;
    do {
        result = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
    } while (result != 0 && errno == EINTR);
    if (result != 0) return -1;
    return info.si_pid != 0;
}

long clinux_find(const void *bytes, size_t count, const void *pattern, size_t length) {
    const char *found = memmem(bytes, count, pattern, length);
    return found ? (long)(found - (const char *)bytes) : -1;
}
