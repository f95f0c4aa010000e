/* toml++ for Swift: a TOML text as a list of nodes. No text ends the process. */
#ifndef CTOML_H
#define CTOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ctoml_kind { CTOML_TABLE, CTOML_LIST, CTOML_TEXT, CTOML_NUMBER, CTOML_FRACTION, CTOML_FLAG, CTOML_TIME }
__attribute__((enum_extensibility(closed)));

/* UTF-8 in the memory of the document. A NUL does not end it. */
struct ctoml_text {
    const char *_Nullable bytes;
    size_t count;
};

struct ctoml_node {
    enum ctoml_kind kind;
    uint32_t line;         /* from 1 */
    struct ctoml_text key; /* empty in a list */
    size_t children;       /* of a table or list: the nodes directly below it */
    /* Of these the one of its kind is set. */
    struct ctoml_text text;
    int64_t number;
    double fraction;
    bool flag;
};

/* Why a text is no TOML. */
struct ctoml_error {
    struct ctoml_text message; /* of toml++, quoting the text; empty where one of its assertions failed */
    uint32_t line, column;     /* from 1, in code points; 0 where unknown */
};

struct ctoml_document;

/* The text is UTF-8. ctoml_free frees the result. */
struct ctoml_document *_Nonnull ctoml_parse(const char *_Nullable text, size_t count);
void ctoml_free(struct ctoml_document *_Nonnull document);

/* The root, then each node before those below it. None where the text is no TOML. */
const struct ctoml_node *_Nullable ctoml_nodes(const struct ctoml_document *_Nonnull document, size_t *_Nonnull count);
struct ctoml_error ctoml_why(const struct ctoml_document *_Nonnull document);

#ifdef __cplusplus
}
#endif

#endif
