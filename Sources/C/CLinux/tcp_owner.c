#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* The kernel answers while the request is being sent. This bounds the wait should it ever not. */
static const struct timeval patience = {.tv_sec = 0, .tv_usec = 200 * 1000};

/* One end of a connection, with IPv4 as IPv4-mapped IPv6, so that both families compare alike. */
struct end {
    uint8_t address[16];
    uint16_t port; /* network byte order */
};

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static void fill(struct end *end, int family, const void *address, uint16_t port) {
    memset(end, 0, sizeof *end);
    if (family == AF_INET) {
        memcpy(end->address, mapped_prefix, sizeof mapped_prefix);
        memcpy(end->address + sizeof mapped_prefix, address, 4);
    } else {
        memcpy(end->address, address, 16);
    }
    end->port = port;
}

static int read_end(const void *socket_address, int *family, struct end *end) {
    sa_family_t kind;
    memcpy(&kind, socket_address, sizeof kind);
    *family = kind;
    if (kind == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, socket_address, sizeof v4);
        fill(end, kind, &v4.sin_addr, v4.sin_port);
        return 0;
    }
    if (kind == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, socket_address, sizeof v6);
        fill(end, kind, &v6.sin6_addr, v6.sin6_port);
        return 0;
    }
    errno = EAFNOSUPPORT;
    return -1;
}

static int ask(int netlink, uint32_t number, int family, const struct end *own, const struct end *other) {
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } request;
    memset(&request, 0, sizeof request);
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = NLM_F_REQUEST;
    request.header.nlmsg_seq = number;
    request.body.sdiag_family = (uint8_t)family;
    request.body.sdiag_protocol = IPPROTO_TCP;
    request.body.idiag_states = ~0u;
    size_t skipped = family == AF_INET ? sizeof mapped_prefix : 0;
    memcpy(request.body.id.idiag_src, own->address + skipped, sizeof own->address - skipped);
    memcpy(request.body.id.idiag_dst, other->address + skipped, sizeof other->address - skipped);
    request.body.id.idiag_sport = own->port;
    request.body.id.idiag_dport = other->port;
    request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ssize_t sent =
        sendto(netlink, &request, sizeof request, MSG_NOSIGNAL, (struct sockaddr *)&kernel, sizeof kernel);
    if (sent == (ssize_t)sizeof request) return 0;
    if (sent >= 0) errno = EIO;
    return -1;
}

/* The kernel's id of the control group in which the socket was made, from the attributes behind the message; 0 where it
   does not tell. */
static uint64_t control_group(const struct nlmsghdr *header) {
    size_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof(struct inet_diag_msg));
    const uint8_t *at = (const uint8_t *)NLMSG_DATA(header) + NLMSG_ALIGN(sizeof(struct inet_diag_msg));
    while (left >= sizeof(struct nlattr)) {
        struct nlattr attribute;
        memcpy(&attribute, at, sizeof attribute);
        size_t length = NLA_ALIGN(attribute.nla_len);
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > left) return 0;
        if (attribute.nla_type == INET_DIAG_CGROUP_ID && attribute.nla_len == NLA_HDRLEN + sizeof(uint64_t)) {
            uint64_t group;
            memcpy(&group, at + NLA_HDRLEN, sizeof group);
            return group;
        }
        if (length >= left) return 0;
        at += length;
        left -= length;
    }
    return 0;
}

static int answer(
    int netlink, uint32_t number, const struct end *own, const struct end *other, struct clinux_tcp_socket *found) {
    _Alignas(struct nlmsghdr) uint8_t buffer[8192];
    struct sockaddr_nl sender;
    socklen_t length = sizeof sender;
    ssize_t count;
    do {
        count = recvfrom(netlink, buffer, sizeof buffer, 0, (struct sockaddr *)&sender, &length);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return -1;
    const struct nlmsghdr *header = (const struct nlmsghdr *)buffer;
    /* Another process may send to our port as well: only the kernel (port 0) is believed. */
    if (length < sizeof sender || sender.nl_pid != 0 || !NLMSG_OK(header, (size_t)count) || header->nlmsg_seq != number) {
        errno = EBADMSG;
        return -1;
    }
    if (header->nlmsg_type == NLMSG_ERROR && header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
        struct nlmsgerr error;
        memcpy(&error, NLMSG_DATA(header), sizeof error);
        errno = error.error < 0 ? -error.error : EBADMSG;
        return -1;
    }
    if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY || header->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg))) {
        errno = EBADMSG;
        return -1;
    }
    struct inet_diag_msg message;
    memcpy(&message, NLMSG_DATA(header), sizeof message);
    struct end local, remote;
    fill(&local, message.idiag_family, message.id.idiag_src, message.id.idiag_sport);
    fill(&remote, message.idiag_family, message.id.idiag_dst, message.id.idiag_dport);
    /* Where no connection has these ends the kernel answers with a listener at `own`. */
    if (memcmp(&local, own, sizeof local) != 0 || memcmp(&remote, other, sizeof remote) != 0) {
        errno = ENOENT;
        return -1;
    }
    found->uid = message.idiag_uid;
    found->inode = message.idiag_inode;
    found->state = message.idiag_state;
    found->cookie = (uint64_t)message.id.idiag_cookie[1] << 32 | message.id.idiag_cookie[0];
    found->control_group = control_group(header);
    return 0;
}

static int give_up(int *netlink) {
    int code = errno;
    close(*netlink);
    *netlink = -1;
    errno = code;
    return -1;
}

int clinux_tcp_socket(const void *own, const void *other, struct clinux_tcp_socket *found) {
    struct end ends[2];
    int family, other_family;
    if (read_end(own, &family, &ends[0]) != 0 || read_end(other, &other_family, &ends[1]) != 0) return -1;
    if (family != other_family) {
        errno = EINVAL;
        return -1;
    }
    /* Each thread keeps its own: to open one would cost more than the question. */
    static _Thread_local int netlink = -1;
    static _Thread_local uint32_t number = 0;
    if (netlink < 0) {
        netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        if (netlink < 0) return -1;
        if (setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0) return give_up(&netlink);
    }
    number += 1;
    if (ask(netlink, number, family, &ends[0], &ends[1]) != 0) return give_up(&netlink);
    if (answer(netlink, number, &ends[0], &ends[1], found) == 0) return 0;
    /* Where no socket was found the answer was whole; else a late one must not meet the next question. */
    return errno == ENOENT ? -1 : give_up(&netlink);
}

int clinux_tcp_sockets_are_told(void) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in none = {.sin_family = AF_INET};
    socklen_t length = sizeof own;
    struct clinux_tcp_socket found;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) return 0;
    int is_told = bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 1) == 0
        && getsockname(listener, (struct sockaddr *)&own, &length) == 0 && clinux_tcp_socket(&own, &none, &found) == 0;
    close(listener);
    return is_told;
}

int clinux_tcp_is_connected(int connection) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
    /* Half-closed by the peer, it is connected still. */
    return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT;
}
