/* Which class a transaction of the MySQL door belongs to, and who that is.
 *
 * A row of the settings (class "etl" { user = "etl*" ... }) names some facts of a transaction and
 * says how it is treated.  Of the rows that match, the one that names more facts wins (the door and
 * read or write count as facts); of equal ones the one with more literal characters in its
 * patterns; then the first in the file.
 *
 * The rows of a door are frozen into a table that is only read: any thread may use it.  Nothing
 * here allocates but class_table_new(). */
#ifndef WEIR_GATE_SQL_CLASS_H
#define WEIR_GATE_SQL_CLASS_H

#include "base/err.h"
#include "gate/gate.h"
#include "gate/identity.h"
#include "wire/sql_text.h"

#define CLASS_NAME_BYTES    IDENTITY_PART_BYTES
#define CLASS_PATTERN_BYTES 255

/* What is known of a transaction.  An empty slice: not known. */
struct class_facts {
        struct slice user, database;
        struct slice program;        /* connection attribute program_name */
        struct slice address;        /* "10.0.0.7", "fe80::1"; without the port */
        const struct sql_text *text; /* its first statement; NULL: not readable */
        struct slice attribute_id, attribute_application; /* query attributes */
        uint64_t digest;                                  /* 0: not known */
        enum sql_kind kind;                               /* SQL_KINDS: not known */
};

/*      id         name     kinds */
#define CLASS_STATEMENTS_MAP(X)                                                                    \
        X(ANY, "any")                                                                              \
        X(READ, "read")   /* READ, SNAPSHOT */                                                     \
        X(WRITE, "write") /* WRITE, LOCK */
enum class_statements {
#define X(id, name) CLASS_STATEMENTS_##id,
        CLASS_STATEMENTS_MAP(X)
#undef X
};
int class_statements_from_name(struct slice name); /* in any case; -1 when there is none */
const char *class_statements_name(enum class_statements statements);

/* The patterns of a row: `*` stands for any text, `?` for one byte; case matters.  An empty one
 * matches everything and names no fact.
 *      comment         "key=value" of any tag ("weir.id=x", "application=shop", decoded), or the id
 *                      of a weir comment alone
 *      address         also a network: "10.0.0.0/8", "fd00::/8"
 *      digest          16 hex digits */
#define CLASS_PATTERN_MAP(X)                                                                       \
        X(user)                                                                                    \
        X(database)                                                                                \
        X(program)                                                                                 \
        X(comment)                                                                                 \
        X(address)                                                                                 \
        X(digest)

struct class_row {
        struct slice name;
        struct slice door; /* the mysql section it is for; empty: all of them */
#define X(pattern) struct slice pattern;
        CLASS_PATTERN_MAP(X)
#undef X
        enum class_statements statements;
        struct slice identity;   /* empty: see class_identity() */
        int tier;                /* enum tier; -1: not set */
        int mode;                /* enum gate_mode; -1: not set */
        int64_t wait_ms;         /* -1: not set */
        uint16_t error;          /* of MySQL; 0: not set */
        char sqlstate[6];        /* "": not set */
        uint32_t concurrency;    /* 0: no limit */
        double rate;             /* transactions a second; 0: no limit */
        uint32_t time_budget_ms; /* database time a second; 0: no limit */
};

/* Nothing set: tier, mode and wait_ms are -1. */
struct class_row class_row_make(struct slice name);
/* ERR_BADARG, what is wrong and what is allowed, in the words of the settings. */
int class_row_check(const struct class_row *row, struct problem *problem) MUST_CHECK;

struct class_table;

/* Of those of the rows, in the order of the file and checked, that are for this door; their slices
 * are copied. */
struct class_table *class_table_new(const struct class_row *rows, size_t n, struct slice door);
struct class_table *class_table_free(struct class_table *t);
DEFINE_CLEANUP(struct class_table, class_table_free)
size_t class_table_len(const struct class_table *t);
/* The i-th in the order in which they are tried. */
const struct class_row *class_table_row(const struct class_table *t, size_t i);

/* The row that decides, NULL: none matches.  It lives as long as the table. */
const struct class_row *class_find(const struct class_table *t, const struct class_facts *facts);

/* Where an identity comes from, in the order of preference. */
#define CLASS_SOURCE_MAP(X)                                                                        \
        X(ROW_IDENTITY, "the identity of the class")                                               \
        X(WEIR_ID, "the id of the weir comment")                                                   \
        X(ROW_NAME, "the name of the class")                                                       \
        X(APPLICATION, "the application in the comment")                                           \
        X(WORKLOAD, "WORKLOAD_NAME in the comment")                                                \
        X(ATTRIBUTE_ID, "the query attribute id")                                                  \
        X(ATTRIBUTE_APPLICATION, "the query attribute application")                                \
        X(PROGRAM, "the program and the user")                                                     \
        X(USER, "the user")                                                                        \
        X(NOBODY, "nothing is known")
enum class_source {
#define X(id, text) CLASS_SOURCE_##id,
        CLASS_SOURCE_MAP(X)
#undef X
};
const char *class_source_text(enum class_source source);

/* Writes a valid identity (gate/identity.h) and a NUL into ret; size is IDENTITY_BYTES + 1 or more.
 * What is not allowed in one becomes '_', and what is too long is cut.  "unknown" when nothing is
 * known.  The row may be NULL. */
enum class_source class_identity(const struct class_row *row, const struct class_facts *facts,
                                 char *ret, size_t size);

/* The tier: that of the row, else `tier`; a comment (weir's tier, else PRIORITY of Vitess: 0 is
 * critical, to 33 high, to 66 normal, to 100 deferrable) can lower it, and with `takes_any` also
 * raise it. */
enum tier class_tier(const struct class_row *row, const struct class_facts *facts, enum tier tier,
                     bool takes_any);

/* What `weir proxy explain` shows. */
struct class_explanation {
        struct sql_text text; /* points into the statement */
        const struct class_row *row;
        enum class_source source;
        char identity[IDENTITY_BYTES + 1];
        enum sql_kind kind;
        bool can_wait;
        uint64_t digest;
        char digest_text[SQL_DIGEST_TEXT];
};

/* The text, digest and kind among the facts are found here. */
void class_explain(const struct class_table *t, const struct class_facts *facts, struct slice sql,
                   struct class_explanation *ret);

#endif
