#ifndef CQRENCODE_H
#define CQRENCODE_H

#include <stddef.h>

/* libqrencode.so.4, loaded at its first use (decision 77). The types are those of qrencode.h, version 4. */
typedef struct {
    int version;
    int width;
    /* width * width bytes: in each the lowest bit is set if the module is dark. */
    unsigned char *data;
} QRcode;

/* Not 0: the library can be used. */
int cqrencode_load(void);

/* The bytes in byte mode, in the smallest version; level: 0 or 1, low or medium correction. NULL: they are too many. Only
   after cqrencode_load(). */
QRcode *cqrencode_encode(const unsigned char *bytes, int count, int level);
void cqrencode_free(QRcode *code);

#endif
