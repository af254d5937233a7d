/* Rows in the order in which they are tried: the one that names more facts first, so the first that
 * matches is the answer.  A row costs a few compares and mostly fails at its first pattern; 100
 * rows are tried in less than 1 us.  What several rows would work out again (the address as a
 * number, the tags as texts) is worked out once for all of them, and only if a row asks for it.
 *
 * Rejected: an index by user or database.  Patterns would need a second way, and a connection asks
 * only when what it knows has changed. */
#include "gate/sql_class.h"

#include <math.h>
#include <stdlib.h>

#include "base/network.h"
#include "base/shown.h"
#include "gate/registry.h"

struct entry {
        struct class_row row;
        size_t n_facts, n_literals, at; /* at: in the file */
        bool is_network;
        struct network network;
        uint64_t digest; /* 0: any */
};

struct class_table {
        size_t n;
        bool has_networks, has_comments;
        char *text; /* of all slices */
        struct entry entries[];
};

/* What the rows are compared with. */
struct look {
        const struct class_facts *facts;
        bool has_address;
        struct ip address;
        const struct slice *tags; /* "key=value" */
        size_t n_tags;
};

/* --- names ------------------------------------------------------------------------------------ */

static const char *const statements_names[] = {
#define X(id, name) name,
        CLASS_STATEMENTS_MAP(X)
#undef X
};

int class_statements_from_name(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(statements_names); i++)
                if (slice_eq_nocase(name, slice_str(statements_names[i])))
                        return (int)i;
        return -1;
}

const char *class_statements_name(enum class_statements statements)
{
        return statements_names[statements];
}

const char *class_source_text(enum class_source source)
{
        static const char *const texts[] = {
#define X(id, text) text,
                CLASS_SOURCE_MAP(X)
#undef X
        };

        return texts[source];
}

/* --- rows ------------------------------------------------------------------------------------- */

struct class_row class_row_make(struct slice name)
{
        return (struct class_row){.name = name, .tier = -1, .mode = -1, .wait_ms = -1};
}

static int check_pattern(const char *field, struct slice pattern, struct problem *problem)
{
        bool is_text = slice_is_utf8(pattern);

        if (pattern.len > CLASS_PATTERN_BYTES)
                return problem_set(problem, ERR_BADARG, "%s has %zu bytes; at most %d are allowed",
                                   field, pattern.len, CLASS_PATTERN_BYTES);
        for (size_t i = 0; i < pattern.len; i++)
                is_text &= (uint8_t)pattern.ptr[i] >= ' ' && pattern.ptr[i] != 0x7f;
        if (!is_text)
                return problem_set(problem, ERR_BADARG,
                                   "%s must be UTF-8 without control characters", field);
        return OK;
}

static int check_name(struct slice name, struct problem *problem)
{
        struct identity id;

        if (identity_parse(name, &id, NULL) != OK || id.n != 1)
                return problem_set(problem, ERR_BADARG,
                                   "'%s' is no name for a class; it has 1 to %d characters, and no "
                                   "space, ':' and '/', and is not \"all\"",
                                   SHOWN(name), CLASS_NAME_BYTES);
        return OK;
}

static int check_address(struct slice address, struct problem *problem)
{
        struct network unused;

        if (address.len && memchr(address.ptr, '/', address.len) &&
            !network_parse(address, &unused))
                return problem_set(problem, ERR_BADARG,
                                   "address '%s' is no network; write \"10.0.0.0/8\", "
                                   "\"fd00::/8\" or a pattern such as \"10.0.*\"",
                                   SHOWN(address));
        return OK;
}

static int check_error(const struct class_row *row, struct problem *problem)
{
        size_t len = strnlen(row->sqlstate, sizeof(row->sqlstate));
        bool is_state = len == 0 || len == 5;

        for (size_t i = 0; i < len; i++) {
                char c = row->sqlstate[i];
                is_state &= (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
        }
        if (!is_state)
                return problem_set(problem, ERR_BADARG,
                                   "'%s' is no SQLSTATE; it is five digits or capital letters, "
                                   "such as \"40001\"",
                                   SHOWN(slice_make(row->sqlstate, len)));
        return OK;
}

int class_row_check(const struct class_row *row, struct problem *problem)
{
        struct identity unused;
        uint8_t digest[8];
        int err = check_name(row->name, problem);

#define X(pattern)                                                                                 \
        if (err == OK)                                                                             \
                err = check_pattern(#pattern, row->pattern, problem);
        CLASS_PATTERN_MAP(X)
#undef X
        if (err == OK)
                err = check_address(row->address, problem);
        if (err == OK && row->digest.len &&
            !slice_to_hex_bytes(row->digest, digest, sizeof(digest)))
                err = problem_set(problem, ERR_BADARG,
                                  "digest '%s' is not 16 hex digits; `weir proxy explain` shows "
                                  "the digest of a statement",
                                  SHOWN(row->digest));
        if (err == OK && row->identity.len)
                err = identity_parse(row->identity, &unused, problem);
        if (err == OK)
                err = check_error(row, problem);
        if (err == OK && !(row->rate >= 0 && isfinite(row->rate)))
                err = problem_set(problem, ERR_BADARG, "rate must be a number from 0");
        return err;
}

static size_t literals_of(struct slice pattern)
{
        size_t n = 0;

        for (size_t i = 0; i < pattern.len; i++)
                n += pattern.ptr[i] != '*' && pattern.ptr[i] != '?';
        return n;
}

static uint64_t digest_of(struct slice hex)
{
        uint8_t bytes[8];
        uint64_t v = 0;

        if (!slice_to_hex_bytes(hex, bytes, sizeof(bytes)))
                return 0;
        for (size_t i = 0; i < sizeof(bytes); i++)
                v = v << 8 | bytes[i];
        return v;
}

/* --- tables ----------------------------------------------------------------------------------- */

static struct slice copy_slice(char **at, struct slice s)
{
        struct slice copy = slice_make(*at, s.len);

        if (s.len)
                memcpy(*at, s.ptr, s.len);
        *at += s.len;
        return copy;
}

static size_t row_bytes(const struct class_row *row)
{
        size_t n = row->name.len + row->door.len + row->identity.len;

#define X(pattern) n += row->pattern.len;
        CLASS_PATTERN_MAP(X)
#undef X
        return n;
}

static void fill_entry(struct entry *e, const struct class_row *row, size_t at, char **text)
{
        *e = (struct entry){.row = *row, .at = at};
        e->row.name = copy_slice(text, row->name);
        e->row.door = copy_slice(text, row->door);
        e->row.identity = copy_slice(text, row->identity);
#define X(pattern)                                                                                 \
        e->row.pattern = copy_slice(text, row->pattern);                                           \
        e->n_facts += row->pattern.len > 0;                                                        \
        e->n_literals += literals_of(row->pattern);
        CLASS_PATTERN_MAP(X)
#undef X
        e->n_facts += (row->door.len > 0) + (row->statements != CLASS_STATEMENTS_ANY);
        e->is_network = row->address.len && memchr(row->address.ptr, '/', row->address.len) &&
                        network_parse(row->address, &e->network);
        e->digest = digest_of(row->digest);
}

static int compare_entries(const void *a, const void *b)
{
        const struct entry *x = a, *y = b;

        if (x->n_facts != y->n_facts)
                return x->n_facts > y->n_facts ? -1 : 1;
        if (x->n_literals != y->n_literals)
                return x->n_literals > y->n_literals ? -1 : 1;
        return x->at < y->at ? -1 : 1;
}

struct class_table *class_table_new(const struct class_row *rows, size_t n, struct slice door)
{
        struct class_table *t = xcalloc(1, sizeof(*t) + n * sizeof(t->entries[0]));
        size_t bytes = 1;

        for (size_t i = 0; i < n; i++)
                bytes += row_bytes(&rows[i]);
        t->text = xmalloc(bytes);
        char *text = t->text;
        for (size_t i = 0; i < n; i++) {
                if (rows[i].door.len && !slice_eq(rows[i].door, door))
                        continue;
                struct entry *e = &t->entries[t->n++];
                fill_entry(e, &rows[i], i, &text);
                t->has_networks |= e->is_network;
                t->has_comments |= e->row.comment.len > 0;
        }
        if (t->n > 1)
                qsort(t->entries, t->n, sizeof(t->entries[0]), compare_entries);
        return t;
}

struct class_table *class_table_free(struct class_table *t)
{
        if (t)
                free(t->text);
        free(t);
        return NULL;
}

size_t class_table_len(const struct class_table *t)
{
        return t->n;
}

const struct class_row *class_table_row(const struct class_table *t, size_t i)
{
        ASSERT(i < t->n);
        return &t->entries[i].row;
}

/* --- finding ---------------------------------------------------------------------------------- */

static bool allows_kind(enum class_statements statements, enum sql_kind kind)
{
        if (statements == CLASS_STATEMENTS_READ)
                return kind == SQL_READ || kind == SQL_SNAPSHOT;
        if (statements == CLASS_STATEMENTS_WRITE)
                return kind == SQL_WRITE || kind == SQL_LOCK;
        return true;
}

/* Long texts are compared by their beginning: clients choose how long they are. */
static inline bool matches(struct slice pattern, struct slice text)
{
        if (pattern.len == 0)
                return true;
        if (text.len > CLASS_PATTERN_BYTES)
                text.len = CLASS_PATTERN_BYTES;
        return registry_matches(pattern, text);
}

static bool has_comment(const struct look *look, struct slice pattern)
{
        static const struct slice id = SLICE_LIT("weir.id=");

        for (size_t i = 0; i < look->n_tags; i++) {
                struct slice tag = look->tags[i];
                if (registry_matches(pattern, tag))
                        return true;
                if (tag.len > id.len && slice_eq(slice_make(tag.ptr, id.len), id) &&
                    registry_matches(pattern, slice_make(tag.ptr + id.len, tag.len - id.len)))
                        return true;
        }
        return false;
}

/* Also with a zone ("fe80::1%eth0"), which no network has. */
static bool read_address(struct slice s, struct ip *ret)
{
        const char *zone = s.len ? memchr(s.ptr, '%', s.len) : NULL;

        return ip_parse(zone ? slice_make(s.ptr, (size_t)(zone - s.ptr)) : s, ret);
}

static bool has_address(const struct look *look, const struct entry *e)
{
        if (e->is_network)
                return look->has_address && network_has(&e->network, &look->address);
        return matches(e->row.address, look->facts->address);
}

static const struct class_row *first_match(const struct class_table *t, const struct look *look)
{
        const struct class_facts *f = look->facts;

        for (size_t i = 0; i < t->n; i++) {
                const struct entry *e = &t->entries[i];
                if (matches(e->row.user, f->user) && matches(e->row.database, f->database) &&
                    (e->digest == 0 || e->digest == f->digest) &&
                    allows_kind(e->row.statements, f->kind) &&
                    matches(e->row.program, f->program) && has_address(look, e) &&
                    (e->row.comment.len == 0 || has_comment(look, e->row.comment)))
                        return &e->row;
        }
        return NULL;
}

/* "key=value", decoded and cut at size; returns its length. */
static size_t write_tag(const struct sql_tag *tag, char *ret, size_t size)
{
        size_t n = strlen(tag->scope);

        memcpy(ret, tag->scope, n);
        if (n + tag->key.len + 2 > size)
                return 0; /* no pattern is as long as that key */
        memcpy(ret + n, tag->key.ptr, tag->key.len);
        n += tag->key.len;
        ret[n++] = '=';
        return n + sql_tag_decode(tag->value, ret + n, size - n);
}

/* Apart, so that only those who need it have its text on their stack. */
__attribute__((noinline)) static const struct class_row *
first_match_with_tags(const struct class_table *t, const struct look *look)
{
        const struct sql_text *sql = look->facts->text;
        char text[SQL_TAGS_MAX][CLASS_PATTERN_BYTES + 1];
        struct slice tags[SQL_TAGS_MAX];
        struct look with_tags = *look;

        for (size_t i = 0; i < sql->n_tags; i++)
                tags[i] = slice_make(text[i], write_tag(&sql->tags[i], text[i], sizeof(text[i])));
        with_tags.tags = tags;
        with_tags.n_tags = sql->n_tags;
        return first_match(t, &with_tags);
}

const struct class_row *class_find(const struct class_table *t, const struct class_facts *facts)
{
        struct look look = {.facts = facts};

        look.has_address = t->has_networks && read_address(facts->address, &look.address);
        if (t->has_comments && facts->text && facts->text->n_tags)
                return first_match_with_tags(t, &look);
        return first_match(t, &look);
}

/* --- identities ------------------------------------------------------------------------------- */

/* An identity as it is written: valid after each part. */
struct writer {
        char *ret; /* IDENTITY_BYTES + 1 */
        size_t len, n_parts;
};

/* How many bytes the character at p has, 0: it is not allowed in an identity. */
static size_t good_character(const char *p, size_t left)
{
        size_t n = utf8_sequence(p, left);
        uint8_t c = (uint8_t)*p;
        bool is_control = c <= ' ' || c == 0x7f || (n == 2 && c == 0xc2 && (uint8_t)p[1] < 0xa0);

        return is_control || c == '/' || c == ':' ? 0 : n;
}

/* A part that is too many is left out, as is an empty one. */
static void put_part(struct writer *w, struct slice s)
{
        size_t from = w->len + (w->len > 0);

        /* Four bytes: one of three may become "all_". */
        if (s.len == 0 || w->n_parts == IDENTITY_PARTS || from + 4 > IDENTITY_BYTES)
                return;
        if (w->len > 0)
                w->ret[w->len++] = ':';
        for (size_t i = 0, n; i < s.len; i += n ? n : 1) {
                n = good_character(s.ptr + i, s.len - i);
                size_t size = n ? n : 1;
                if (w->len - from + size > IDENTITY_PART_BYTES || w->len + size > IDENTITY_BYTES)
                        break;
                memcpy(w->ret + w->len, n ? s.ptr + i : "_", size);
                w->len += size;
        }
        if (w->len - from == 3 && memcmp(w->ret + from, "all", 3) == 0)
                w->ret[w->len++] = '_';
        w->n_parts++;
}

/* Parts with colons between them; a valid identity stays as it is. */
static void put_parts(struct writer *w, struct slice s)
{
        struct identity unused;
        size_t from = 0;

        if (!s.ptr)
                return;
        if (identity_parse(s, &unused, NULL) == OK) {
                memcpy(w->ret, s.ptr, s.len);
                w->len = s.len;
                return;
        }
        for (size_t i = 0; i <= s.len; i++) {
                if (i < s.len && s.ptr[i] != ':')
                        continue;
                put_part(w, slice_make(s.ptr + from, i - from));
                from = i + 1;
        }
}

/* The decoded value of a tag; empty: there is none. */
static struct slice tag_value(const struct class_facts *facts, const char *key, char *ret,
                              size_t size)
{
        struct slice value = facts->text ? sql_text_tag(facts->text, key) : SLICE_NONE;

        return slice_make(ret, sql_tag_decode(value, ret, size));
}

/* Tags that name the application, of sqlcommenter, marginalia and others. */
static struct slice find_application(const struct class_facts *facts, char *ret, size_t size)
{
        static const char *const keys[] = {"application", "app", "application_name",
                                           "ApplicationName", "service"};
        struct slice value = SLICE_NONE;

        for (size_t i = 0; i < ARRAY_LEN(keys) && value.len == 0; i++)
                value = tag_value(facts, keys[i], ret, size);
        return value;
}

/* The file name of a program that gives its path. */
static struct slice base_name(struct slice program)
{
        size_t from = program.len;

        while (from > 0 && program.ptr[from - 1] != '/' && program.ptr[from - 1] != '\\')
                from--;
        return from < program.len ? slice_make(program.ptr + from, program.len - from) : program;
}

static void put_source(struct writer *w, enum class_source source, const struct class_row *row,
                       const struct class_facts *facts)
{
        char value[IDENTITY_BYTES + 1];

        switch (source) {
        case CLASS_SOURCE_ROW_IDENTITY:
                put_parts(w, row ? row->identity : SLICE_NONE);
                break;
        case CLASS_SOURCE_WEIR_ID:
                put_parts(w, tag_value(facts, "weir.id", value, sizeof(value)));
                break;
        case CLASS_SOURCE_ROW_NAME:
                put_part(w, row ? row->name : SLICE_NONE);
                break;
        case CLASS_SOURCE_APPLICATION:
                put_part(w, find_application(facts, value, sizeof(value)));
                break;
        case CLASS_SOURCE_WORKLOAD:
                put_part(w, tag_value(facts, "vt.WORKLOAD_NAME", value, sizeof(value)));
                break;
        case CLASS_SOURCE_ATTRIBUTE_ID:
                put_parts(w, facts->attribute_id);
                break;
        case CLASS_SOURCE_ATTRIBUTE_APPLICATION:
                put_part(w, facts->attribute_application);
                break;
        case CLASS_SOURCE_PROGRAM:
                put_part(w, base_name(facts->program));
                if (w->len)
                        put_part(w, facts->user);
                break;
        case CLASS_SOURCE_USER:
                put_part(w, facts->user);
                break;
        case CLASS_SOURCE_NOBODY:
                put_part(w, SLICE_LIT("unknown"));
                break;
        }
}

enum class_source class_identity(const struct class_row *row, const struct class_facts *facts,
                                 char *ret, size_t size)
{
        struct writer w = {.ret = ret};
        enum class_source source = 0;

        ASSERT(size > IDENTITY_BYTES);
        for (;; source++) {
                put_source(&w, source, row, facts);
                if (w.len)
                        break;
        }
        ret[w.len] = '\0';
        return source;
}

/* --- tiers ------------------------------------------------------------------------------------ */

/* The tier that a comment asks for; -1: none does, or it is no tier. */
static int comment_tier(const struct class_facts *facts)
{
        uint64_t priority;

        if (!facts->text)
                return -1;
        struct slice name = sql_text_tag(facts->text, "weir.tier");
        if (name.ptr)
                return tier_from_name(name);
        if (!slice_to_u64(sql_text_tag(facts->text, "vt.PRIORITY"), &priority) || priority > 100)
                return -1;
        if (priority == 0)
                return TIER_CRITICAL;
        if (priority <= 33)
                return TIER_HIGH;
        return priority <= 66 ? TIER_NORMAL : TIER_DEFERRABLE;
}

enum tier class_tier(const struct class_row *row, const struct class_facts *facts, enum tier tier,
                     bool takes_any)
{
        int asked = comment_tier(facts);

        if (row && row->tier >= 0)
                tier = (enum tier)row->tier;
        bool is_lower = asked > (int)tier; /* tiers go from critical down */
        return asked >= 0 && (is_lower || takes_any) ? (enum tier)asked : tier;
}

void class_explain(const struct class_table *t, const struct class_facts *facts, struct slice sql,
                   struct class_explanation *ret)
{
        struct class_facts f = *facts;

        sql_text_scan(sql, &ret->text);
        ret->digest = sql_digest(sql, ret->digest_text);
        ret->kind = ret->text.kind;
        ret->can_wait = sql_kind_can_wait(ret->kind);
        f.text = &ret->text;
        f.digest = ret->digest;
        f.kind = ret->kind;
        ret->row = class_find(t, &f);
        ret->source = class_identity(ret->row, &f, ret->identity, sizeof(ret->identity));
}
