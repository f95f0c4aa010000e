/* glibc refuses a program with compact relocations (DT_RELR) that does not name this version. GNU ld names it by itself;
   lld does where something refers to its symbol. A program without libc.so needs neither: weak. */
extern const char GLIBC_ABI_DT_RELR[] __attribute__((weak));
__attribute__((used, retain)) static const char *const version_of_compact_relocations = GLIBC_ABI_DT_RELR;
