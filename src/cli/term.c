/* Raw mode, keys and frames.
 *
 * ncurses was rejected: it keeps a picture of the screen to save bytes on slow lines, and wants the
 * terminal's description from a database that slim containers lack.  A frame here is 2 KiB once a
 * second; it is written whole, over the one before, without clearing first, so nothing flickers.
 *
 * Whatever ends the process must give the terminal back: a shell without echo is worse than any
 * other way to fail.  Orderly ends do it in term_close(); signals that ask for an end come through
 * a descriptor and become a key; a crash does it in a handler, with nothing but write() and
 * tcsetattr(), and then crashes on as it would have.  SIGKILL cannot be helped: `reset` does.
 *
 * Keys: an escape byte begins a sequence or is the key itself.  What a terminal sends for one key
 * comes in one piece, so an escape that nothing followed within ESCAPE_MS was the key. */
#include "cli/term.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/screen.h"

#define ESCAPE_MS 50 /* over a slow line the rest of a sequence may come in a second packet */

/* The alternate screen, no cursor, and lines that do not wrap. */
static const char enter_codes[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave_codes[] = "\033[?7h\033[?25h\033[0m\033[?1049l";

static const int crash_signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

/* For the handler of crashes, which knows nothing else. */
static struct termios before;
static volatile sig_atomic_t is_taken;

/* ---- keys ---- */

static const struct {
        const char *rest; /* after ESC [ or ESC O */
        int key;
} sequences[] = {
        {"A", TERM_UP},       {"B", TERM_DOWN},       {"C", TERM_RIGHT}, {"D", TERM_LEFT},
        {"H", TERM_HOME},     {"F", TERM_END},        {"1~", TERM_HOME}, {"4~", TERM_END},
        {"5~", TERM_PAGE_UP}, {"6~", TERM_PAGE_DOWN}, {"7~", TERM_HOME}, {"8~", TERM_END},
        {"Z", TERM_BACK_TAB},
};

static int sequence_key(const char *rest, size_t len)
{
        for (size_t i = 0; i < ARRAY_LEN(sequences); i++)
                if (strlen(sequences[i].rest) == len && memcmp(sequences[i].rest, rest, len) == 0)
                        return sequences[i].key;
        return TERM_NONE;
}

int term_decode(const char *bytes, size_t len, bool is_all, size_t *ret_used)
{
        *ret_used = 0;
        if (len == 0)
                return TERM_NONE;
        if (bytes[0] != TERM_ESCAPE || (len == 1 && is_all)) {
                *ret_used = 1;
                return (unsigned char)bytes[0];
        }
        if (len == 1)
                return TERM_NONE;
        if (bytes[1] != '[' && bytes[1] != 'O') { /* alt and a key; an escape for us */
                *ret_used = 1;
                return TERM_ESCAPE;
        }
        /* Parameters, then one letter or '~' that ends it (ECMA-48 5.4). */
        for (size_t at = 2; at < len; at++) {
                if (bytes[at] >= 0x20 && bytes[at] <= 0x3f)
                        continue;
                *ret_used = at + 1;
                return sequence_key(bytes + 2, at - 1);
        }
        if (is_all)
                *ret_used = len; /* cut off: nothing can be made of it */
        return TERM_NONE;
}

/* ---- taking and giving back ---- */

static void write_codes(const char *codes, size_t len)
{
        while (len) {
                ssize_t n = write(STDOUT_FILENO, codes, len);
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return; /* the terminal is gone; the keys will tell */
                codes += n > 0 ? n : 0;
                len -= n > 0 ? (size_t)n : 0;
        }
}

/* Only what a signal handler may do. */
static void give_back(void)
{
        if (!is_taken)
                return;
        is_taken = 0;
        (void)!write(STDOUT_FILENO, leave_codes, sizeof(leave_codes) - 1); /* or it is gone */
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

static void on_crash(int number)
{
        give_back();
        (void)signal(number, SIG_DFL);
        (void)raise(number); /* delivered when this returns, with the default's core dump */
}

static void take(void)
{
        struct termios raw = before;
        cfmakeraw(&raw);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        is_taken = 1;
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw); /* else keys need a return: usable */
        write_codes(enter_codes, sizeof(enter_codes) - 1);
}

int term_open(struct term *t, struct problem *p)
{
        sigset_t set;
        *t = (struct term){.signal_fd = -1};
        if (tcgetattr(STDIN_FILENO, &before) != 0 || !isatty(STDOUT_FILENO))
                return problem_set(p, ERR_BADARG, "this needs a terminal: %s", strerror(errno));
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGHUP);
        (void)sigaddset(&set, SIGWINCH);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (t->signal_fd < 0)
                return problem_set(p, ERR_IO, "signalfd: %s", strerror(errno));
        for (size_t i = 0; i < ARRAY_LEN(crash_signals); i++)
                (void)signal(crash_signals[i], on_crash);
        t->is_open = true;
        take();
        return OK;
}

void term_close(struct term *t)
{
        give_back();
        if (t->is_open)
                (void)close(t->signal_fd);
        t->is_open = false;
}

void term_suspend(struct term *t)
{
        give_back();
        (void)raise(SIGSTOP);
        if (t->is_open)
                take();
}

/* ---- waiting ---- */

static int take_signal(const struct term *t)
{
        struct signalfd_siginfo info;
        int key = TERM_NONE;
        while (read(t->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
                if (info.ssi_signo != SIGWINCH)
                        return TERM_STOP;
                key = TERM_RESIZED;
        }
        return key;
}

/* True when there are more bytes; *ret_is_gone when there will never be. */
static bool read_bytes(struct term *t, bool *ret_is_gone)
{
        ssize_t n = read(STDIN_FILENO, t->bytes + t->n_bytes, sizeof(t->bytes) - t->n_bytes);
        if (n > 0)
                t->n_bytes += (size_t)n;
        *ret_is_gone = n < 0 && errno != EAGAIN && errno != EINTR;
        return n > 0;
}

static int take_key(struct term *t, bool is_all)
{
        size_t used;
        int key = term_decode(t->bytes, t->n_bytes, is_all, &used);
        memmove(t->bytes, t->bytes + used, t->n_bytes - used);
        t->n_bytes -= used;
        return key == 3 ? (int)TERM_STOP : key; /* ctrl-C: raw mode sends no SIGINT */
}

int term_wait(struct term *t, int64_t until_ns)
{
        for (;;) {
                int key = take_key(t, false);
                if (key != TERM_NONE)
                        return key;
                int64_t left_ms = (until_ns - clock_boot_ns()) / NS_PER_MS;
                if (t->n_bytes && left_ms > ESCAPE_MS)
                        left_ms = ESCAPE_MS;
                struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                       {.fd = t->signal_fd, .events = POLLIN}};
                int n = poll(fds, ARRAY_LEN(fds), left_ms > 0 ? (int)left_ms : 0);
                bool is_gone = n > 0 && (fds[0].revents & (POLLERR | POLLNVAL));
                if (n > 0 && fds[1].revents && (key = take_signal(t)) != TERM_NONE)
                        return key;
                bool has_more = n > 0 && fds[0].revents && read_bytes(t, &is_gone);
                if (is_gone || (n > 0 && !has_more && (fds[0].revents & POLLHUP)))
                        return TERM_STOP;
                if (n == 0 && t->n_bytes)
                        return take_key(t, true);
                if (!has_more && clock_boot_ns() >= until_ns)
                        return TERM_NONE;
        }
}

/* ---- frames ---- */

struct term_size term_size(void)
{
        struct winsize size = {0};
        bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
        return is_known ? (struct term_size){size.ws_row, size.ws_col} : (struct term_size){24, 80};
}

void term_draw(const struct term *t, struct slice frame)
{
        struct buf out CLEANUP(buf_release) = {0};
        if (!t->is_open)
                return;
        buf_put_str(&out, "\033[H");
        while (frame.len) {
                buf_put_slice(&out, text_take_line(&frame));
                buf_put_str(&out, "\033[K");
                buf_put_str(&out, frame.len ? "\r\n" : "\033[J");
        }
        write_codes(out.ptr, out.len);
}

/* The length of the next piece of a line: a tone (0 columns) or a character. */
static size_t next_piece(struct slice s, size_t *ret_columns)
{
        bool is_tone = s.len >= 3 && s.ptr[0] == TERM_ESCAPE && s.ptr[1] == '[';
        const char *end = is_tone ? memchr(s.ptr, 'm', s.len) : NULL;
        *ret_columns = 0;
        if (end)
                return (size_t)(end - s.ptr) + 1;
        size_t n = utf8_sequence(s.ptr, s.len);
        n = n ? n : 1;
        *ret_columns = text_width(slice_make(s.ptr, n));
        return n;
}

static size_t line_width(struct slice line)
{
        size_t width = 0, columns;
        while (line.len) {
                size_t n = next_piece(line, &columns);
                width += columns;
                line = slice_make(line.ptr + n, line.len - n);
        }
        return width;
}

void term_put_cut(struct buf *b, struct slice line, size_t columns)
{
        if (line_width(line) <= columns) {
                buf_put_slice(b, line);
                return;
        }
        bool has_tone = false;
        for (size_t width = 0, wide; line.len;) {
                size_t n = next_piece(line, &wide);
                if (width + wide >= columns) /* one column is for the ellipsis */
                        break;
                has_tone |= wide == 0;
                buf_put(b, line.ptr, n);
                width += wide;
                line = slice_make(line.ptr + n, line.len - n);
        }
        buf_put_str(b, columns ? "\u2026" : "");
        buf_put_str(b, has_tone ? "\033[0m" : "");
}
