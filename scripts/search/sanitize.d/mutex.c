// Tells ThreadSanitizer what Swift's Mutex does. Its quick paths are compiled into the caller and instrumented there;
// the slow ones, where a thread waits for the lock or is waited for, are in the Swift library, which is not. Without
// this each lock that was waited for looks like none. Preloaded by scripts/search/sanitize; it does nothing in processes
// without ThreadSanitizer.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

// Synchronization._MutexHandle._lockSlow(UInt32) returns with the lock taken; ._unlockSlow() gives it to a waiter.
#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

typedef __attribute__((swiftcall)) void lock_slow(uint32_t thread, __attribute__((swift_context)) void *handle);
typedef __attribute__((swiftcall)) void unlock_slow(__attribute__((swift_context)) void *handle);

lock_slow lock __asm__(LOCK_SLOW);
unlock_slow unlock __asm__(UNLOCK_SLOW);

__attribute__((weak)) void __tsan_acquire(void *address);
__attribute__((weak)) void __tsan_release(void *address);

static lock_slow *library_lock;
static unlock_slow *library_unlock;

__attribute__((constructor)) static void find(void) {
  library_lock = (lock_slow *)dlsym(RTLD_NEXT, LOCK_SLOW);
  library_unlock = (unlock_slow *)dlsym(RTLD_NEXT, UNLOCK_SLOW);
}

__attribute__((swiftcall)) void lock(uint32_t thread, __attribute__((swift_context)) void *handle) {
  library_lock(thread, handle);
  if (__tsan_acquire) __tsan_acquire(handle);
}

__attribute__((swiftcall)) void unlock(__attribute__((swift_context)) void *handle) {
  if (__tsan_release) __tsan_release(handle);
  library_unlock(handle);
}
