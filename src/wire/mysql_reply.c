/* State        the next packet is                              leaves to
 *   START      the first of a reply, or of its next result     COLUMNS, ROWS, START, FILE, DONE
 *   COLUMNS    a definition, or the EOF after them             ROWS, START or DONE (with a cursor)
 *   ROWS       a row, or what ends the rows                    START, DONE
 *   PREPARE    the answer to a PREPARE                         PARAMETERS, COLUMNS, DONE
 *   PARAMETERS a definition, or the EOF after them             COLUMNS, DONE
 *   FIELDS     a definition, or what ends a FIELD_LIST         DONE
 *   ONE        any                                             DONE
 *   LOGIN      OK, an error, or a word for the client          AUTH, DONE
 *   FILE, AUTH an event when the packet at hand ends           START, LOGIN
 *   DONE       an event when the packet at hand ends
 *   BROKEN     an event at once
 *
 * A packet is judged when its head is there: as many of its first bytes as fit into first[], or all
 * of a shorter one.  Judging moves to the next state; the rest of the packet, and the packets that
 * continue it, are jumped over, and only then is an event told.  Bytes are copied into the machine
 * only where a head was cut; whole rows are passed by pass_rows(), which looks at five bytes of
 * each.
 *
 * An error ends a reply in every state.  With MARIADB_PROGRESS an error of number 0xffff is none
 * but a report of progress, which the server may send wherever it works: before the first packet of
 * a result (ALTER TABLE) and between rows (CHECK TABLE). */
#include "wire/mysql_reply.h"

#include "base/bytes.h"

#define HEADER_OK      0x00
#define HEADER_MORE    0x01 /* of a login: data of the authentication plugin */
#define HEADER_FILE    0xfb
#define HEADER_EOF     0xfe
#define HEADER_ERROR   0xff

#define FAST_AUTH_DONE 0x03 /* of caching_sha2_password, after HEADER_MORE */
#define ERROR_PROGRESS 0xffff
#define EOF_LEN        5 /* header, warnings (2), status (2); an OK packet has at least 7 */
#define EOF_LEN_LIMIT  9 /* a row with that header has at least as many bytes */

enum state {
        STATE_START,
        STATE_COLUMNS,
        STATE_ROWS,
        STATE_PREPARE,
        STATE_PARAMETERS,
        STATE_FIELDS,
        STATE_ONE,
        STATE_LOGIN,
        STATE_FILE,
        STATE_AUTH,
        STATE_DONE,
        STATE_BROKEN,
};

void mysql_reply_begin(struct mysql_reply *r, enum mysql_expect expect, uint64_t caps)
{
        static const uint8_t first_state[] = {
                [MYSQL_EXPECT_RESULT] = STATE_START,    [MYSQL_EXPECT_EXECUTE] = STATE_START,
                [MYSQL_EXPECT_PREPARE] = STATE_PREPARE, [MYSQL_EXPECT_ROWS] = STATE_ROWS,
                [MYSQL_EXPECT_COLUMNS] = STATE_FIELDS,  [MYSQL_EXPECT_PACKET] = STATE_ONE,
                [MYSQL_EXPECT_LOGIN] = STATE_LOGIN,
        };
        *r = (struct mysql_reply){.caps = caps, .expect = expect, .state = first_state[expect]};
}

static bool has_eof(const struct mysql_reply *r)
{
        return !(r->caps & MYSQL_DEPRECATE_EOF);
}

/* ---- what a packet says: `head` begins with its header byte, `len` is its whole length ---- */

static bool take_status(struct mysql_reply *r, struct slice rest)
{
        if (!mysql_get_u16(&rest, &r->status))
                return false;
        r->has_status = true;
        return true;
}

/* 00 or fe, affected rows (lenenc), insert id (lenenc), status (2), ... */
static bool take_ok(struct mysql_reply *r, struct slice head)
{
        struct slice rest = slice_make(head.ptr + 1, head.len - 1);
        uint64_t affected, id;
        if (!mysql_get_int(&rest, &affected) || !mysql_get_int(&rest, &id) || !take_status(r, rest))
                return false;
        r->affected += affected;
        return true;
}

/* What ends rows or definitions: an EOF packet, or an OK packet with its header byte. */
static bool take_end(struct mysql_reply *r, struct slice head, uint32_t len)
{
        if (len == EOF_LEN) /* fe, warnings (2), status (2) */
                return take_status(r, slice_make(head.ptr + 3, head.len - 3));
        return take_ok(r, head);
}

static bool is_end_of_rows(const struct mysql_reply *r, uint8_t first, uint32_t len)
{
        return first == HEADER_EOF && len < (has_eof(r) ? EOF_LEN_LIMIT : MYSQL_PAYLOAD_MAX);
}

static enum state after_result(const struct mysql_reply *r)
{
        return (r->status & MYSQL_STATUS_MORE_RESULTS) ? STATE_START : STATE_DONE;
}

/* ---- judging: each returns the next state ---- */

static enum state judge_error(struct mysql_reply *r, struct slice head)
{
        struct slice rest = slice_make(head.ptr + 1, head.len - 1);
        uint16_t number;
        if (!mysql_get_u16(&rest, &number))
                return STATE_BROKEN;
        if (number == ERROR_PROGRESS && (r->caps & MARIADB_PROGRESS))
                return r->state;
        r->is_error = true;
        r->error = number;
        return STATE_DONE;
}

/* The number of columns (lenenc), and with MARIADB_CACHE_METADATA whether definitions follow (1).
 */
static enum state judge_count(struct mysql_reply *r, struct slice head, uint32_t len)
{
        uint8_t follow = 1;
        if (len > head.len || !mysql_get_int(&head, &r->columns))
                return STATE_BROKEN;
        if ((r->caps & MARIADB_CACHE_METADATA) && head.len && !mysql_get_u8(&head, &follow))
                return STATE_BROKEN;
        if (head.len || !r->columns)
                return STATE_BROKEN;
        if (!follow)
                r->columns = 0;
        return has_eof(r) || r->columns ? STATE_COLUMNS : STATE_ROWS;
}

static enum state judge_start(struct mysql_reply *r, struct slice head, uint32_t len)
{
        switch ((uint8_t)*head.ptr) {
        case HEADER_OK:
                return take_ok(r, head) ? after_result(r) : STATE_BROKEN;
        case HEADER_EOF: /* MariaDB answers so to COM_SET_OPTION */
                return take_end(r, head, len) ? after_result(r) : STATE_BROKEN;
        case HEADER_FILE:
                return STATE_FILE;
        default:
                return judge_count(r, head, len);
        }
}

static enum state judge_columns(struct mysql_reply *r, struct slice head, uint32_t len)
{
        bool is_end = (uint8_t)*head.ptr == HEADER_EOF;
        if (!has_eof(r)) {
                if (is_end)
                        return STATE_BROKEN;
                if (--r->columns)
                        return STATE_COLUMNS;
                return r->expect == MYSQL_EXPECT_PREPARE ? STATE_DONE : STATE_ROWS;
        }
        /* A PREPARE tells its columns in 16 bits, so there can be more of them. */
        bool is_counted = r->expect != MYSQL_EXPECT_PREPARE;
        if (!is_end) {
                if (is_counted && !r->columns--)
                        return STATE_BROKEN;
                return STATE_COLUMNS;
        }
        if (len != EOF_LEN || (is_counted && r->columns) || !take_end(r, head, len))
                return STATE_BROKEN;
        if (r->expect == MYSQL_EXPECT_PREPARE)
                return STATE_DONE;
        if (r->expect == MYSQL_EXPECT_EXECUTE && (r->status & MYSQL_STATUS_CURSOR_EXISTS))
                return after_result(r);
        return STATE_ROWS;
}

static enum state judge_rows(struct mysql_reply *r, struct slice head, uint32_t len)
{
        if (!is_end_of_rows(r, (uint8_t)*head.ptr, len)) {
                r->rows++;
                return STATE_ROWS;
        }
        if (!take_end(r, head, len))
                return STATE_BROKEN;
        return r->expect == MYSQL_EXPECT_ROWS ? STATE_DONE : after_result(r);
}

/* 00, statement (4), columns (2), parameters (2), 00, warnings (2) */
static enum state judge_prepare(struct mysql_reply *r, struct slice head)
{
        struct slice rest = slice_make(head.ptr + 1, head.len - 1);
        uint16_t columns, parameters;
        if ((uint8_t)*head.ptr != HEADER_OK || !mysql_get_u32(&rest, &r->statement_id) ||
            !mysql_get_u16(&rest, &columns) || !mysql_get_u16(&rest, &parameters))
                return STATE_BROKEN;
        r->parameters = parameters;
        r->columns = parameters;
        r->later = columns;
        if (parameters)
                return STATE_PARAMETERS;
        r->columns = columns;
        return columns ? STATE_COLUMNS : STATE_DONE;
}

static enum state judge_parameters(struct mysql_reply *r, struct slice head, uint32_t len)
{
        bool is_end = (uint8_t)*head.ptr == HEADER_EOF;
        if (is_end != (has_eof(r) && !r->columns))
                return STATE_BROKEN;
        if (is_end && (len != EOF_LEN || !take_end(r, head, len)))
                return STATE_BROKEN;
        if (!is_end && (--r->columns || has_eof(r)))
                return STATE_PARAMETERS;
        r->columns = r->later;
        return r->columns ? STATE_COLUMNS : STATE_DONE;
}

static enum state judge_fields(struct mysql_reply *r, struct slice head, uint32_t len)
{
        if ((uint8_t)*head.ptr != HEADER_EOF)
                return STATE_FIELDS;
        return take_end(r, head, len) ? STATE_DONE : STATE_BROKEN;
}

/* One packet of any kind; when it looks like an OK or EOF packet, its status is that of the
 * session. */
static enum state judge_one(struct mysql_reply *r, struct slice head, uint32_t len)
{
        if ((uint8_t)*head.ptr == HEADER_OK)
                (void)take_ok(r, head); /* it may be none */
        else if ((uint8_t)*head.ptr == HEADER_EOF)
                (void)take_end(r, head, len);
        return STATE_DONE;
}

static enum state judge_login(struct mysql_reply *r, struct slice head, uint32_t len)
{
        uint8_t first = (uint8_t)*head.ptr;
        if (first == HEADER_OK)
                return take_ok(r, head) ? STATE_DONE : STATE_BROKEN;
        if (first == HEADER_MORE && len == 2 && head.ptr[1] == FAST_AUTH_DONE)
                return STATE_LOGIN;
        return STATE_AUTH;
}

static enum state judge(struct mysql_reply *r, struct slice head, uint32_t len)
{
        if (!len) { /* only a text or a plugin's data can be empty */
                if (r->state == STATE_LOGIN)
                        return STATE_AUTH;
                return r->state == STATE_ONE ? STATE_DONE : STATE_BROKEN;
        }
        if ((uint8_t)*head.ptr == HEADER_ERROR)
                return judge_error(r, head);
        switch ((enum state)r->state) {
        case STATE_START:
                return judge_start(r, head, len);
        case STATE_COLUMNS:
                return judge_columns(r, head, len);
        case STATE_ROWS:
                return judge_rows(r, head, len);
        case STATE_PREPARE:
                return judge_prepare(r, head);
        case STATE_PARAMETERS:
                return judge_parameters(r, head, len);
        case STATE_FIELDS:
                return judge_fields(r, head, len);
        case STATE_ONE:
                return judge_one(r, head, len);
        case STATE_LOGIN:
                return judge_login(r, head, len);
        case STATE_FILE:
        case STATE_AUTH:
        case STATE_DONE:
        case STATE_BROKEN:
                break;
        }
        return STATE_BROKEN; /* feed asks in the states above only */
}

/* ---- bytes ---- */

/* Passes over whole rows of one packet each; what is left begins with anything else. */
static const uint8_t *pass_rows(struct mysql_reply *r, const uint8_t *at, const uint8_t *end)
{
        uint64_t rows = 0;
        while (end - at > (ptrdiff_t)MYSQL_HEADER) {
                uint32_t len = load_u32(at) & MYSQL_PAYLOAD_MAX;
                if (len == 0 || len == MYSQL_PAYLOAD_MAX || at[MYSQL_HEADER] >= HEADER_EOF ||
                    (size_t)(end - at) < MYSQL_HEADER + len)
                        break;
                at += MYSQL_HEADER + len;
                rows++;
        }
        r->rows += rows;
        return at;
}

/* Copies up to `want` bytes in all into `to`, of which *n are there. */
static const uint8_t *collect(uint8_t *to, uint8_t *n, size_t want, struct slice from)
{
        size_t part = want - *n < from.len ? want - *n : from.len;
        memcpy(to + *n, from.ptr, part);
        *n = (uint8_t)(*n + part);
        return (const uint8_t *)from.ptr + part;
}

/* Reads the header and the head of the packet at hand, as far as they are there, and judges it when
 * they are.  False: bytes are missing, and all were taken. */
static bool read_head(struct mysql_reply *r, const uint8_t **at, const uint8_t *end)
{
        if (r->n_header < MYSQL_HEADER) {
                *at = collect(r->header, &r->n_header, MYSQL_HEADER,
                              slice_make(*at, (size_t)(end - *at)));
                if (r->n_header < MYSQL_HEADER)
                        return false;
                r->left = mysql_length(r->header);
                r->n_first = 0;
                if (!r->left && !r->is_continuation)
                        r->state = (uint8_t)judge(r, SLICE_NONE, 0);
        }
        uint32_t len = mysql_length(r->header);
        size_t want = len < sizeof(r->first) ? len : sizeof(r->first);
        if (r->is_continuation || r->n_first == want)
                return true;
        size_t there = (size_t)(end - *at);
        if (!r->n_first && there >= want) { /* nothing to copy: it is all here */
                r->n_first = (uint8_t)want;
                r->state = (uint8_t)judge(r, slice_make(*at, want), len);
                *at += want;
        } else {
                *at = collect(r->first, &r->n_first, want, slice_make(*at, there));
                if (r->n_first < want)
                        return false;
                r->state = (uint8_t)judge(r, slice_make(r->first, want), len);
        }
        r->left -= (uint32_t)want;
        return true;
}

/* The event of a packet that ended; MYSQL_NEEDS_MORE when it is none. */
static enum mysql_event end_packet(struct mysql_reply *r)
{
        r->n_header = 0;
        r->is_continuation = mysql_length(r->header) == MYSQL_PAYLOAD_MAX;
        if (r->is_continuation)
                return MYSQL_NEEDS_MORE;
        if (r->state == STATE_FILE) {
                r->state = STATE_START;
                return MYSQL_WANTS_FILE;
        }
        if (r->state == STATE_AUTH) {
                r->state = STATE_LOGIN;
                return MYSQL_WANTS_AUTH;
        }
        return r->state == STATE_DONE ? MYSQL_REPLY_DONE : MYSQL_NEEDS_MORE;
}

size_t mysql_reply_feed(struct mysql_reply *r, const uint8_t *bytes, size_t n,
                        enum mysql_event *ret_event)
{
        const uint8_t *at = bytes, *end = n ? bytes + n : bytes;
        enum mysql_event event = MYSQL_NEEDS_MORE;
        if (r->state == STATE_DONE && !r->n_header && !r->is_continuation)
                event = MYSQL_REPLY_DONE;
        if (r->state == STATE_BROKEN)
                event = MYSQL_BROKEN;
        while (event == MYSQL_NEEDS_MORE && at < end) {
                if (r->state == STATE_ROWS && !r->n_header && !r->is_continuation) {
                        at = pass_rows(r, at, end);
                        if (at == end)
                                break;
                }
                if (!read_head(r, &at, end))
                        break;
                if (r->state == STATE_BROKEN) {
                        event = MYSQL_BROKEN;
                        break;
                }
                size_t part = (size_t)(end - at) < r->left ? (size_t)(end - at) : r->left;
                at += part;
                r->left -= (uint32_t)part;
                if (!r->left)
                        event = end_packet(r);
        }
        *ret_event = event;
        return (size_t)(at - bytes);
}
