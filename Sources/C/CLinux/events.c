#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int clinux_route_socket(void) {
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (descriptor < 0) return -1;
    struct sockaddr_nl address = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE,
    };
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0) return descriptor;
    int code = errno;
    close(descriptor);
    errno = code;
    return -1;
}

int clinux_route_ask(int descriptor, int what) {
    static const uint16_t types[] = {RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE};
    if (what < 0 || what > 2) {
        errno = EINVAL;
        return -1;
    }
    struct {
        struct nlmsghdr header;
        struct rtmsg body; /* As long as the longest of the three that is needed: all zero is "everything". */
    } request;
    memset(&request, 0, sizeof request);
    request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.body);
    request.header.nlmsg_type = types[what];
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ssize_t sent = sendto(
        descriptor, &request, request.header.nlmsg_len, MSG_NOSIGNAL, (struct sockaddr *)&kernel, sizeof kernel);
    return sent == (ssize_t)request.header.nlmsg_len ? 0 : -1;
}

long clinux_route_read(int descriptor, void *buffer, size_t capacity) {
    struct sockaddr_nl sender;
    socklen_t length = sizeof sender;
    ssize_t count;
    do {
        count = recvfrom(descriptor, buffer, capacity, 0, (struct sockaddr *)&sender, &length);
    } while (count < 0 && errno == EINTR);
    /* Another process may send to our port as well: only the kernel (port 0) is believed. */
    if (count > 0 && (length < sizeof sender || sender.nl_pid != 0)) return 0;
    return count;
}

int clinux_clock_timer(void) {
    int descriptor = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (descriptor < 0) return -1;
    if (clinux_clock_timer_arm(descriptor) == 0) return descriptor;
    int code = errno;
    close(descriptor);
    errno = code;
    return -1;
}

int clinux_clock_timer_arm(int descriptor) {
    struct itimerspec never;
    memset(&never, 0, sizeof never);
    never.it_value.tv_sec = sizeof(time_t) > 4 ? (time_t)253402300799 /* the end of the year 9999 */ : (time_t)0x7fffffff;
    return timerfd_settime(descriptor, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL);
}
