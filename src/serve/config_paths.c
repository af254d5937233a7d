/* See config_paths.h.
 *
 * The values are changed in the tree of libconfuse, before any code takes them from there: most are
 * taken by the rows, some by code of their own, and none of it has to know of folders.  Links are
 * not followed: /etc/weir/weir.conf means /etc/weir, whatever the file is a link to. */
#include "serve/config_paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/setting_table.h"
#include "base/buf.h"
#include "base/shown.h"

static const char *without_dot(const char *path)
{
        return strncmp(path, "./", 2) == 0 ? path + 2 : path;
}

/* The folder of the file, from / and with a / behind it. */
static int put_folder(const char *file, struct buf *ret, struct problem *problem)
{
        if (file[0] != '/') {
                char *here = getcwd(NULL, 0);
                if (!here)
                        return problem_set(problem, ERR_IO, "the folder of %s: %s",
                                           SHOWN_LONG(file), strerror(errno));
                buf_put_str(ret, here);
                if (ret->ptr[ret->len - 1] != '/')
                        buf_put_byte(ret, '/');
                free(here);
                file = without_dot(file);
        }
        const char *slash = strrchr(file, '/');
        buf_put(ret, file, slash ? (size_t)(slash - file) + 1 : 0);
        return OK;
}

static bool is_relative_path(enum setting_path kind, unsigned index, const char *text)
{
        if (!text[0] || text[0] == '/' || (kind == SETTING_PROGRAM && index > 0))
                return false;
        if (kind == SETTING_PATH)
                return true;
        size_t n = strcspn(text, "/:"); /* http://db:3306 is a mistake, and no path */
        return kind != SETTING_NO_PATH && text[n] == '/';
}

static enum setting_path path_kind(enum setting_section section, const char *name)
{
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                if (def->section == section && strcmp(def->name, name) == 0)
                        return def->path;
        }
        return SETTING_NO_PATH;
}

/* The values of one option. */
static int resolve_texts(cfg_opt_t *o, enum setting_path kind, struct slice folder)
{
        struct buf whole CLEANUP(buf_release) = {0};
        for (unsigned i = 0; kind != SETTING_NO_PATH && i < cfg_opt_size(o); i++) {
                const char *text = cfg_opt_getnstr(o, i);
                if (!text || !is_relative_path(kind, i, text))
                        continue;
                buf_clear(&whole);
                buf_put_slice(&whole, folder);
                buf_put_str(&whole, without_dot(text));
                if (cfg_opt_setnstr(o, buf_cstr(&whole), i) != CFG_SUCCESS)
                        return ERR_NOMEM;
        }
        return OK;
}

static enum setting_section section_named(const char *name)
{
        enum setting_section s = SECTION_TOP;
        while (s < SECTIONS && strcmp(setting_sections[s].name, name) != 0)
                s++;
        ASSERT(s < SECTIONS);
        return s;
}

/* A section and those within it.
 * NOLINTNEXTLINE(misc-no-recursion): sections are two deep, by the options in config.c */
static int resolve_section(cfg_t *cfg, enum setting_section section, struct slice folder)
{
        int r = OK;
        for (cfg_opt_t *o = cfg->opts; r == OK && o->name; o++) {
                if (o->type == CFGT_STR)
                        r = resolve_texts(o, path_kind(section, o->name), folder);
                for (unsigned i = 0; r == OK && o->type == CFGT_SEC && i < cfg_opt_size(o); i++)
                        r = resolve_section(cfg_opt_getnsec(o, i), section_named(o->name), folder);
        }
        return r;
}

int config_paths_resolve(cfg_t *cfg, const char *file, struct problem *problem)
{
        struct buf folder CLEANUP(buf_release) = {0};
        int r = put_folder(file, &folder, problem);
        if (r != OK)
                return r;
        r = resolve_section(cfg, SECTION_TOP, buf_slice(&folder));
        return r == OK ? OK : problem_set(problem, r, "no memory for the configuration");
}
