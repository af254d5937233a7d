/* Every setting in one table: how it is called in weir.conf and while weir runs, its type, range,
 * default and meaning.  The rows are in setting_table.def; what is here knows no value of any
 * setting.
 */
#ifndef WEIR_API_SETTING_TABLE_H
#define WEIR_API_SETTING_TABLE_H

#include "base/buf.h"
#include "base/slice.h"

enum setting_section {
        SECTION_TOP,
        SECTION_TLS,
        SECTION_QUEUE,
        SECTION_LOCKS,
        SECTION_THROTTLE,
        SECTION_LEVEL, /* of throttle */
        SECTION_TARGET,
        SECTION_REPLICA, /* of a target */
        SECTION_METRIC,  /* of a target */
        SECTION_WORDPRESS,
        SECTION_MYSQL,
        SECTION_CLASS,
        SECTION_TOKEN,
        SECTION_TELEMETRY,
        SECTION_CLUSTER,
        SECTION_LIVE, /* in no file: only set while weir runs */
        SECTIONS
};

enum setting_type {
        SETTING_BOOL,
        SETTING_INT,
        SETTING_NUMBER,
        SETTING_SHARE,    /* a number above 0, at most 1 */
        SETTING_SIZE,     /* bytes: "64m" */
        SETTING_DURATION, /* ms: "90s" */
        SETTING_CHOICE,
        SETTING_TEXT,
        SETTING_TEXTS,
        SETTING_INTS,
        SETTING_NUMBERS,
        SETTING_PAIR,      /* enter and exit of a level, or "auto" */
        SETTING_DURATIONS, /* one that is set while weir runs is one of them */
};

enum setting_flag {
        SETTING_RESTART = 1 << 0,       /* a reload names a change and leaves it to a restart */
        SETTING_FOREVER = 1 << 1,       /* 0 is written "forever" */
        SETTING_ZERO_IS_USUAL = 1 << 2, /* 0 in the file is the default */
        SETTING_NS = 1 << 3,            /* the member is in ns */
        SETTING_NEGATED = 1 << 4,       /* the member says the opposite: is_off */
        SETTING_QUOTED = 1 << 5,        /* its error has words in double quotes */
        SETTING_BY_HAND = 1 << 6,       /* the code of its section takes it from the file */
};

/* Which texts of a TEXT or of TEXTS are paths: a relative one is relative to the folder of the file
 * that it stands in (serve/config_paths.c). */
enum setting_path {
        SETTING_NO_PATH,
        SETTING_PATH,
        SETTING_ADDRESS, /* one with a '/', and no ':' before it */
        SETTING_PROGRAM, /* the first of the list, when it has a '/'; else PATH is searched */
};

#define SETTING_CHOICES_MAX 6

struct setting_def {
        const char *name; /* in the file */
        /* For SETTINGSET; NULL: it cannot be set while weir runs.  The words LEVEL, TIER, NAME (of
         * a target or a site) and METRIC stand for each of those there are. */
        const char *live;
        enum setting_section section;
        enum setting_type type;
        unsigned flags;
        enum setting_path path;
        const char *choices[SETTING_CHOICES_MAX]; /* of a CHOICE, by value; NULL: no such value */
        int64_t min, max;       /* of INT, NUMBER, SIZE, DURATION; max 0: no bound */
        int64_t usual;          /* the default; of a CHOICE and a DURATION -1: none */
        double usual_number;    /* of a SHARE */
        const char *usual_text; /* of a TEXT, and of TEXTS with one */
        const char *otherwise;  /* the default in words, where no value says it */
        const char *kinds;      /* of targets that it is for, with commas between; NULL: all */
        const char *zero;       /* what 0 means, for its error */
        const char *form;       /* how a value is written, for the man page; NULL: by its type */
        const char *unit;       /* what an INT counts; NULL: none */
        const char *text;       /* a sentence without capital and full stop */
        const char *more;       /* further sentences, for the man page; NULL: none */
};

/* Whether clients show a certificate; one that is shown must always be good. */
enum tls_verify { TLS_VERIFY_OFF, TLS_VERIFY_ASK, TLS_VERIFY_REQUIRE };

/* Errors that the `error` of a class chooses from: the number and its SQLSTATE. */
#define CLASS_ERROR_MAP(X)                                                                         \
        X(1213, "40001")                                                                           \
        X(1205, "HY000")                                                                           \
        X(1041, "HY000")                                                                           \
        X(1040, "08004")                                                                           \
        X(1226, "42000")                                                                           \
        X(3024, "HY000")

/* For includers of setting_table.def: which rows, 0 for all, in SETTINGS_SECTION. */
#define SETTINGS_TOP        1
#define SETTINGS_QUEUE      2
#define SETTINGS_LOCKS      3
#define SETTINGS_THROTTLE   4
#define SETTINGS_LEVEL      5
#define SETTINGS_TARGET     6
#define SETTINGS_REPLICA    7
#define SETTINGS_METRIC     8
#define SETTINGS_WORDPRESS  9
#define SETTINGS_MYSQL      10
#define SETTINGS_CLASS      11
#define SETTINGS_LIVE       12
#define SETTINGS_TOKEN      13
#define SETTINGS_TLS        14
#define SETTINGS_TELEMETRY  15
#define SETTINGS_CLUSTER    16
#define SETTINGS_HAS(which) (SETTINGS_SECTION == 0 || SETTINGS_SECTION == (which))

/* The members of a struct that the rows of its section declare: with
 *      #define SETTINGS_SECTION SETTINGS_TOP
 *      #define SETTING SETTING_MEMBER
 *      #include "api/setting_table.def" */
#define SETTING_MEMBER(section, name, type, kept, member, ...) SETTING_MEMBER_##kept(type, member)
#define SETTING_MEMBER_OWN(type, member)                       SETTING_C_##type member;
#define SETTING_MEMBER_LIST(type, member)                                                          \
        char *member[SETTING_LIST_MAX + 1];                                                        \
        size_t n_##member;
#define SETTING_MEMBER_AT(type, member)
#define SETTING_MEMBER_POLICY(type, member)
#define SETTING_MEMBER_PROBE(type, member)
#define SETTING_MEMBER_NONE(type, member)
#define SETTING_LIST_MAX   16 /* texts of one list */
#define SETTING_C_BOOL     bool
#define SETTING_C_INT      uint32_t
#define SETTING_C_NUMBER   double
#define SETTING_C_SHARE    double
#define SETTING_C_SIZE     uint64_t
#define SETTING_C_DURATION int64_t
#define SETTING_C_CHOICE   int
#define SETTING_C_TEXT     char *

/* SET_THROTTLE_mode and so on: the place of a row in setting_table. */
enum setting_id {
#define SETTINGS_SECTION                                0
#define SETTING(section, name, type, kept, member, ...) SET_##section##_##name,
#include "api/setting_table.def"
        SETTING_IDS
};
extern const struct setting_def setting_table[SETTING_IDS];

/* A section of the file. */
struct setting_section_def {
        const char *name; /* "throttle", "level"; "": the top, or in no file */
        const char *form; /* how it is written, for the man page */
        const char *text; /* sentences about it */
};
extern const struct setting_section_def setting_sections[SECTIONS];

/* The row of a name as `weir config diff` writes it for what is in no titled section, "data" or
 * "throttle.mode"; NULL: none. */
const struct setting_def *setting_find(struct slice dotted);
/* The value of a choice, in any case; -1: no such one. */
int setting_choice(const struct setting_def *def, struct slice word);
/* "off, observe or enforce", each within `quote`. */
void setting_put_choices(const struct setting_def *def, const char *quote, struct buf *ret);

#endif
