/* A terminal taken over for a while: raw keys in, whole frames out.
 *
 * Plain escape codes that every terminal since the VT100 obeys, and the alternate screen, so that
 * what stood there before is there again afterwards.  One terminal a process: what it was like is
 * kept in this file, since it must be given back when the process crashes too.
 *
 * Signals: SIGINT, SIGTERM, SIGHUP and SIGWINCH come as keys while it is open. */
#ifndef WEIR_CLI_TERM_H
#define WEIR_CLI_TERM_H

#include "base/buf.h"
#include "base/err.h"

enum term_key {
        TERM_NONE = 0, /* the time passed */
        /* 1 to 255: the byte itself; bytes of UTF-8 come one by one */
        TERM_TAB = '\t',
        TERM_ENTER = '\r',
        TERM_ESCAPE = 27,
        TERM_DELETE = 127,
        TERM_UP = 256,
        TERM_DOWN,
        TERM_LEFT,
        TERM_RIGHT,
        TERM_PAGE_UP,
        TERM_PAGE_DOWN,
        TERM_HOME,
        TERM_END,
        TERM_BACK_TAB,
        TERM_RESIZED,
        TERM_STOP, /* a signal, ctrl-C, or the terminal is gone */
};

struct term {
        int signal_fd;
        char bytes[64]; /* read and not decoded yet */
        size_t n_bytes;
        bool is_open;
};

/* The first key in the bytes and how many it takes.  `is_all`: no more will come with it, so an
 * escape alone is the key; else TERM_NONE with 0 bytes used means that more are needed.  Sequences
 * that are not known are TERM_NONE and used up. */
int term_decode(const char *bytes, size_t len, bool is_all, size_t *ret_used);

/* Standard input and output must be a terminal. */
int term_open(struct term *t, struct problem *p) MUST_CHECK;
void term_close(struct term *t); /* as it was; twice is fine */
/* Lets the shell have it until the process is continued. */
void term_suspend(struct term *t);

/* A key, or TERM_NONE when none came before `until_ns` (clock_boot_ns). */
int term_wait(struct term *t, int64_t until_ns);

struct term_size {
        size_t rows, columns;
};

/* 24 by 80 when it is not known. */
struct term_size term_size(void);
/* Puts the frame in place of the last one: lines that end in '\n', at most as many as there are
 * rows, none wider than the screen. */
void term_draw(const struct term *t, struct slice frame);

/* The front of a line that fits into `columns`, with an ellipsis in place of what does not.  Tones
 * in it take no room and are ended; other control characters must not be in it. */
void term_put_cut(struct buf *b, struct slice line, size_t columns);

#endif
