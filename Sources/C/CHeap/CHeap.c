#define _GNU_SOURCE
#include "CHeap.h"

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A sanitizer has a heap of its own. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HEAP_IS_ANOTHERS
#endif
#endif

#if defined(__GLIBC__) && !defined(HEAP_IS_ANOTHERS)

/* The C library's own, under the names that it keeps for those who stand before it (malloc(3) may be replaced). */
extern void __libc_free(void *);
extern void *__libc_realloc(void *, size_t);

void free(void *block) {
  if (block == NULL) return;
  explicit_bzero(block, malloc_usable_size(block));
  __libc_free(block);
}

void *realloc(void *block, size_t size) {
  if (block == NULL) return malloc(size);
  if (size == 0) {
    free(block);
    return NULL;
  }
  size_t before = malloc_usable_size(block);
  if (size <= before) {
    /* What is cut off goes back to the heap. */
    explicit_bzero((char *)block + size, before - size);
    return __libc_realloc(block, size);
  }
  /* The C library would leave a copy where the block was. */
  void *bigger = malloc(size);
  if (bigger == NULL) return NULL;
  memcpy(bigger, block, before);
  free(block);
  return bigger;
}

#endif
