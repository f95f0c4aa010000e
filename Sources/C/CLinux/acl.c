#include <sys/types.h>
#include <sys/xattr.h>

#include "CLinux.h"

static const char acl_attribute[] = "system.posix_acl_access";

long clinux_acl_get(int descriptor, void *list, size_t capacity) {
    return fgetxattr(descriptor, acl_attribute, list, capacity);
}

int clinux_acl_set(int descriptor, const void *list, size_t length) {
    return fsetxattr(descriptor, acl_attribute, list, length, 0);
}
