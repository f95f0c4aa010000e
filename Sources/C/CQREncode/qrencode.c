#include "CQREncode.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static QRcode *(*encode)(int, const unsigned char *, int, int);
static void (*release)(QRcode *);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    void *library = dlopen("libqrencode.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    void *encoder = dlsym(library, "QRcode_encodeData");
    void *releaser = dlsym(library, "QRcode_free");
    if (!encoder || !releaser) return;
    /* ISO C has no conversion of an object's pointer to a function's; POSIX requires it (dlsym). */
    memcpy(&release, &releaser, sizeof releaser);
    memcpy(&encode, &encoder, sizeof encoder);
}

int cqrencode_load(void) {
    pthread_once(&once, load);
    return encode != NULL;
}

QRcode *cqrencode_encode(const unsigned char *bytes, int count, int level) { return encode(count, bytes, 0, level); }
void cqrencode_free(QRcode *code) { release(code); }
