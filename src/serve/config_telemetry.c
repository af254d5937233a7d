/* See config_telemetry.h. */
#include "serve/config_telemetry.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/config_rows.h"
#include "serve/config_secret.h"
#include "telemetry/exporter.h"

#define HEADERS_MAX 8192

static struct config_at at_of(struct config_telemetry *t, struct problem *problem)
{
        return (struct config_at){
                .section = SECTION_TELEMETRY, .own = t, .where = "telemetry: ", .problem = problem};
}

void config_telemetry_init(struct config_telemetry *t)
{
        struct config_at at = at_of(t, NULL);
        *t = (struct config_telemetry){0};
        config_rows_init(&at);
}

void config_telemetry_finish(struct config_telemetry *t)
{
        struct config_at at = at_of(t, NULL);
        config_rows_finish(&at);
}

void config_telemetry_release(struct config_telemetry *t)
{
        struct config_at at = at_of(t, NULL);
        config_rows_release(&at);
        if (t->headers)
                explicit_bzero(t->headers, strlen(t->headers));
        free(t->headers);
        t->headers = NULL;
}

static int check_headers(const struct config_at *at, const char *path, struct slice text)
{
        int number = 1;
        for (size_t from = 0; from < text.len; number++) {
                size_t len = 0;
                while (from + len < text.len && text.ptr[from + len] != '\n')
                        len++;
                struct slice line = slice_make(text.ptr + from, len);
                if (len && !exporter_is_header(line))
                        return config_wrong(at, ERR_BADARG,
                                            "%s, line %d is no header; a line is Name: value", path,
                                            number);
                from += len + 1;
        }
        return OK;
}

static int read_headers(struct config_telemetry *t, const struct config_at *at)
{
        char text[HEADERS_MAX + 2];
        struct problem why;
        int r = config_read_secret("headers file", t->headers_file, text, sizeof(text), &why);
        if (r < 0)
                return config_wrong(at, r, "%s", why.detail);
        size_t n = (size_t)r;
        r = n > HEADERS_MAX ? config_wrong(at, ERR_TOOBIG, "%s is longer than %d bytes",
                                           t->headers_file, HEADERS_MAX)
                            : check_headers(at, t->headers_file, slice_make(text, n));
        if (r == OK)
                t->headers = xstrdup(text);
        explicit_bzero(text, sizeof(text));
        return r;
}

static int check_url(const struct config_at *at, const char *url)
{
        const char *host = NULL;
        if (strncmp(url, "http://", 7) == 0)
                host = url + 7;
        else if (strncmp(url, "https://", 8) == 0)
                host = url + 8;
        if (!host || !host[strcspn(host, "/")] || strcspn(host, "/:") == 0)
                return config_wrong(at, ERR_BADARG,
                                    "otlp must be an address with its path, as "
                                    "http://127.0.0.1:4318/v1/traces, not '%s'",
                                    url);
        if (strchr(url, '@'))
                return config_wrong(at, ERR_BADARG,
                                    "user and password do not belong into otlp: headers_file is "
                                    "for keys");
        return OK;
}

int config_telemetry_take(struct config_telemetry *t, cfg_t *section, struct problem *problem)
{
        struct config_at at = at_of(t, problem);
        int r = section ? config_rows_take(&at, section) : OK;
        if (r == OK && t->otlp)
                r = check_url(&at, t->otlp);
        if (r == OK && t->ca && access(t->ca, R_OK) != 0)
                r = config_wrong(&at, ERR_IO, "ca: %s cannot be read", t->ca);
        if (r == OK && t->headers_file)
                r = read_headers(t, &at);
        return r;
}
