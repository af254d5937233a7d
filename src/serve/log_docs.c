/* See log_docs.h.  effect_map.h, option.h, queue.h and the files of the kinds have the rows. */
#include "serve/log_docs.h"

#include "state/effect.h"
#include "state/thing.h"

static void put_fields(struct buf *b, const struct field *fields, size_t n)
{
        static const char *const conditions[] = {[WHEN_ALWAYS] = "",
                                                 [WHEN_V2] = "; since version 2",
                                                 [WHEN_MORE] = "; only with `has_more`"};
        buf_put_str(b, "| field | bytes | meaning |\n|---|---|---|\n");
        for (const struct field *f = fields; f < fields + n; f++)
                buf_printf(b, "| `%s` | %s | %s%s |\n", f->key, field_type_text(f->type), f->text,
                           conditions[f->when]);
        buf_put_byte(b, '\n');
}

#define OPTION_ROW_TEXT(tag, at, text) {#at, text, FIELD_TYPE_TEXT, tag, 0},
#define OPTION_ROW_NUM(tag, at, text)  {#at, text, FIELD_TYPE_NUM, tag, 0},

/* Rows of a packed struct: `when` has the tag. */
static void put_options(struct buf *b, const struct field *options, size_t n)
{
        buf_put_str(b, "| tag | option | bytes | meaning |\n|---|---|---|---|\n");
        for (const struct field *o = options; o < options + n; o++)
                buf_printf(b, "| %u | `%s` | %s | %s |\n", o->when, o->key,
                           field_type_text(o->type), o->text);
        buf_put_byte(b, '\n');
}

void log_docs_md(struct buf *b)
{
        static const struct field options[] = {OPTION_MAP(OPTION_ROW_TEXT, OPTION_ROW_NUM)};
        static const struct field settings[] = {QUEUE_SETTING_MAP(OPTION_ROW_TEXT, OPTION_ROW_NUM)};
        buf_put_str(b,
                    "# Records of the log\n\n"
                    "Written from the tables of the program by `tools/docs-update`; not edited "
                    "by hand.\n\n"
                    "A batch of the log is a list of records. "
                    "[src/log/README.md](../src/log/README.md) draws the bytes around them; this "
                    "page lists their bodies. A record states an outcome, not a command: replay "
                    "needs no clock and no random numbers. `weir log dump DIR` prints records "
                    "under the names used here; it leaves out packed bytes, empty texts and "
                    "numbers that are 0.\n\n"
                    "Numbers are varints (LEB128) unless the table says otherwise. All other "
                    "bytes are little-endian.\n\n");
        buf_printf(b, "Records have version %d. Version 1 is still read.\n\n## Effects\n\n",
                   EFFECT_VERSION);
        for (int type = EFFECT_NONE + 1; type < EFFECT_COUNT; type++) {
                size_t n;
                const struct field *fields = effect_fields(type, &n);
                buf_printf(b, "### %d %s\n\n%s\n\n", type, effect_name(type), effect_text(type));
                put_fields(b, fields, n);
        }
        buf_put_str(b,
                    "## Options of a job\n\n"
                    "Each option that is present: tag (u8), then its bytes. A number of 0 and an "
                    "empty text are absent.\n\n");
        put_options(b, options, ARRAY_LEN(options));
        buf_put_str(b, "## Settings of a queue\n\nPacked as the options of a job.\n\n");
        put_options(b, settings, ARRAY_LEN(settings));
        buf_put_str(b,
                    "## Named things\n\n"
                    "`thing_set`, `thing_note` and `thing_gone` serve all kinds. Each kind reads "
                    "and writes its own bodies.\n\n");
        for (int kind = 0; kind < THING_KINDS; kind++) {
                const struct thing_ops *ops = thing_kinds[kind];
                buf_printf(b, "### Kind %d %s\n\n%s\n\n", kind, thing_kind_name(kind), ops->text);
                if (ops->body)
                        buf_printf(b, "Body: %s\n\n", ops->body);
                if (ops->fields)
                        put_fields(b, ops->fields, ops->n_fields);
        }
}
