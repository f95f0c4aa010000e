/* What a release build of grantctl has in the place of Foundation. The argument parser has Foundation's JSON encoder write
   --experimental-dump-help, casts errors to Foundation's LocalizedError, and needs nothing else of it: 5 MB of 17. A symbol that
   is defined here has nothing of libFoundationEssentials.a linked. Where grantctl or another version of the parser needs more of
   Foundation, a release build fails for a symbol that is there twice, or scripts/bench says that grantctl is too large. */
#ifdef FOUNDATION_IS_ABSENT
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

__attribute__((noreturn)) static void leave(void) {
    fputs("grantctl: this build has no --experimental-dump-help\n", stderr);
    exit(EX_USAGE);
}

#define ABSENT(number, symbol) \
    void absent##number(void) __asm__(symbol); \
    void absent##number(void) { leave(); }

/* JSONEncoder: its metadata, which is asked for first; init(); and the formats .prettyPrinted and .sortedKeys */
ABSENT(1, "$s20FoundationEssentials11JSONEncoderCMa")
ABSENT(2, "$s20FoundationEssentials11JSONEncoderCACycfc")
ABSENT(3, "$s20FoundationEssentials11JSONEncoderC16OutputFormattingV13prettyPrintedAEvau")
ABSENT(4, "$s20FoundationEssentials11JSONEncoderC16OutputFormattingV10sortedKeysAEvau")
/* String.init(data:encoding:) and String.Encoding.utf8 */
ABSENT(5, "$sSS20FoundationEssentialsE4data8encodingSSSgAA4DataVh_SSAAE8EncodingVtcfC")
ABSENT(6, "$sSS20FoundationEssentialsE8EncodingV4utf8ACvau")

/* The descriptor of LocalizedError (TargetProtocolDescriptor of Swift's ABI): a protocol without requirements, which no type has. */
__asm__(".pushsection .data.rel.ro,\"aw\",@progbits\n"
        ".balign 4\n"
        ".globl \"$s20FoundationEssentials14LocalizedErrorMp\"\n"
        "\"$s20FoundationEssentials14LocalizedErrorMp\":\n"
        ".long 0x00010043\n" /* a protocol, one of its kind, not for classes alone */
        ".long 0\n"
        ".long 9f - .\n"
        ".long 0, 0, 0\n"
        "9: .asciz \"LocalizedError\"\n"
        ".popsection\n");
#endif
