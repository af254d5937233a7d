/* What a statement is about, from its words: enough to know whether it may be made to wait, and who
 * sent it.  This is no parser of SQL: it skips comments, strings and quoted names, and reads the
 * first words.  What it does not know counts as a write, which can wait and changes no state. */
#ifndef WEIR_WIRE_SQL_TEXT_H
#define WEIR_WIRE_SQL_TEXT_H

#include "base/slice.h"

/*      id          name        may wait at the start of a transaction */
#define SQL_KIND_MAP(X)                                                                            \
        X(READ, "read", true)         /* SELECT, WITH ... SELECT, TABLE, VALUES */                 \
        X(WRITE, "write", true)       /* everything else that works on data, also DDL and CALL */  \
        X(BEGIN, "begin", false)      /* a bare BEGIN or START TRANSACTION */                      \
        X(SNAPSHOT, "snapshot", true) /* START TRANSACTION WITH CONSISTENT SNAPSHOT */             \
        X(END, "end", false)          /* COMMIT, ROLLBACK (not TO a savepoint) */                  \
        X(LOCK, "lock", true)         /* LOCK TABLES, FLUSH ... WITH READ LOCK, BACKUP, HANDLER */ \
        X(UNLOCK, "unlock", false)    /* UNLOCK TABLES, BACKUP STAGE END, BACKUP UNLOCK, HANDLER   \
                                         CLOSE, XA COMMIT and XA ROLLBACK */                       \
        X(XA, "xa", false)            /* XA START, END, PREPARE, RECOVER */                        \
        X(USE, "use", false)                                                                       \
        X(KILL, "kill", false)                                                                     \
        X(WEIR, "weir", false) /* SHOW WEIR ... */                                                 \
        X(PASS, "pass", false) /* SET, SHOW, SAVEPOINT, DEALLOCATE, PREPARE, EXPLAIN without       \
                                  ANALYZE, DESCRIBE, HELP, SELECT of constants and @@variables     \
                                  without FROM, SELECT RELEASE_LOCK(...), nothing at all */

enum sql_kind {
#define X(id, name, can_wait) SQL_##id,
        SQL_KIND_MAP(X)
#undef X
                SQL_KINDS
};
const char *sql_kind_name(enum sql_kind kind);
bool sql_kind_can_wait(enum sql_kind kind);

#define SQL_TAGS_MAX 12

/* A key and a value from a comment; the value may be percent-encoded: sql_tag_decode().  The scope
 * and the key together are the name of the tag. */
struct sql_tag {
        const char *scope; /* "weir.", "vt." or "" */
        struct slice key, value;
};

struct sql_text {
        /* Of several statements: LOCK if one is, else WRITE, SNAPSHOT, READ; else the first that is
         * not PASS. */
        enum sql_kind kind;
        bool is_multi;      /* another statement follows a ';' */
        bool takes_lock;    /* GET_LOCK( is in it */
        bool releases_lock; /* RELEASE_LOCK( */
        bool releases_all;  /* RELEASE_ALL_LOCKS( */
        /* Of any statement of several: LOCK TABLES, FLUSH ... WITH READ LOCK, BACKUP and their
         * ends; HANDLER ... OPEN and CLOSE. */
        bool takes_tables, releases_tables, opens_handler, closes_handler;
        /* Of any statement of several: it may begin or end a transaction, lock, or unlock. */
        bool may_change_session;
        uint32_t kill_id;       /* SQL_KILL: 0 when it is no plain number */
        bool is_kill_statement; /* KILL QUERY: the connection stays */
        struct slice database;  /* of USE, without quotes; of several the last */
        struct slice show;      /* SQL_WEIR: the word after it, "STATUS" */
        /* Comments: / * weir: id=a tier=b * / gives weir.id and weir.tier; Vitess's directives
         * (/ *vt+ KEY=value * /) give vt.KEY; sqlcommenter's (key='value', ...) and marginalia's
         * (key:value, ...) give their keys.  Comments count that are before the second token or
         * after the last one. */
        struct sql_tag tags[SQL_TAGS_MAX];
        size_t n_tags;
};

void sql_text_scan(struct slice sql, struct sql_text *ret);
/* The value of the first tag of that key, not decoded; ptr NULL: there is none. */
struct slice sql_text_tag(const struct sql_text *t, const char *key);
/* Percent-decoded into ret (NUL-terminated, cut at size); returns its length. */
size_t sql_tag_decode(struct slice value, char *ret, size_t size);

/* ---- the digest ---- */

#define SQL_DIGEST_TEXT 256

/* A number for all statements that differ only in literals, white space, comments and the case of
 * keywords: literals become ?, lists of them ?, ... one ?.  One pass, no allocation; about 1 ns a
 * byte.  With `ret` also what it stands for (SQL_DIGEST_TEXT bytes with the NUL; cut at a
 * character). */
uint64_t sql_digest(struct slice sql, char *ret);

#endif
