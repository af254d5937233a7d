/* The machine that follows the replies of a MySQL server.  What was recorded came from
 * MariaDB 10.11 of Debian 12; what it does not send is built by hand.  Each reply is fed whole, cut
 * in two at every place, and in pieces of each size, and must mean the same. */
#include "wire/mysql_reply.h"

#include "mysql_bytes.h"

#define MODERN (CACHING | MYSQL_DEPRECATE_EOF | MYSQL_SESSION_TRACK | MARIADB_EXTENDED_TYPES)
#define NEW    MYSQL_DEPRECATE_EOF

/* ---- replies ---- */

/* events: one letter each, as told: D done, F wants a file, A wants the client, B broken. */
struct want {
        const char *events;
        uint64_t rows, affected;
        unsigned error;
        int status; /* -1: none */
        uint32_t statement;
};

struct reply_case {
        const char *name;
        enum mysql_expect expect;
        uint64_t caps;
        const char *hex;
        struct want want;
};

/* What came of one reading. */
struct heard {
        char events[16];
        size_t ends[16]; /* bytes taken when each was told */
        size_t n;
        size_t taken;
        struct mysql_reply r;
};

/* Feeds a piece, from memory of exactly its size unless that is large; false when the reply is
 * over. */
static bool hear(struct heard *h, const uint8_t *bytes, size_t n)
{
        static const char letters[] = " DFAB";
        size_t at = 0;
        uint8_t *copy = n < 65536 ? malloc(n ? n : 1) : NULL;
        if (copy)
                memcpy(copy, bytes, n);
        while (at < n) {
                enum mysql_event event;
                size_t used = mysql_reply_feed(&h->r, (copy ? copy : bytes) + at, n - at, &event);
                assert_true(used <= n - at);
                at += used;
                if (event == MYSQL_NEEDS_MORE) {
                        assert_int_equal(at, n);
                        break;
                }
                assert_true(h->n < sizeof(h->events) - 1);
                h->ends[h->n] = h->taken + at;
                h->events[h->n++] = letters[event];
                if (event == MYSQL_REPLY_DONE || event == MYSQL_BROKEN)
                        break;
        }
        free(copy);
        h->taken += at;
        return !h->n || !strchr("DB", h->events[h->n - 1]);
}

/* The first `first` bytes at once, then pieces of `step`. */
static struct heard hear_all(const struct reply_case *c, struct bytes b, size_t first, size_t step)
{
        struct heard h = {0};
        mysql_reply_begin(&h.r, c->expect, c->caps);
        size_t part = first;
        for (size_t at = 0; at < b.n; at += part, part = step) {
                if (part > b.n - at)
                        part = b.n - at;
                if (!hear(&h, b.at + at, part))
                        break;
        }
        return h;
}

static void heard_the_same(const struct heard *a, const struct heard *b)
{
        assert_string_equal(a->events, b->events);
        assert_memory_equal(a->ends, b->ends, sizeof(a->ends));
        assert_int_equal(a->taken, b->taken);
        if (a->n && a->events[a->n - 1] == 'D') {
                assert_int_equal(a->r.is_error, b->r.is_error);
                assert_int_equal(a->r.error, b->r.error);
                assert_int_equal(a->r.has_status, b->r.has_status);
                assert_int_equal(a->r.status, b->r.status);
                assert_int_equal(a->r.rows, b->r.rows);
                assert_int_equal(a->r.affected, b->r.affected);
                assert_int_equal(a->r.statement_id, b->r.statement_id);
        }
}

static void means(const struct reply_case *c, struct bytes b)
{
        const struct want *w = &c->want;
        struct heard whole = hear_all(c, b, b.n, b.n);
        if (strcmp(whole.events, w->events) != 0)
                fail_msg("%s: '%s' and not '%s'", c->name, whole.events, w->events);
        if (strchr(w->events, 'D')) {
                int status = whole.r.has_status ? whole.r.status : -1;
                if (whole.taken != b.n || whole.r.rows != w->rows || status != w->status ||
                    whole.r.affected != w->affected || whole.r.is_error != (w->error != 0) ||
                    whole.r.error != w->error || whole.r.statement_id != w->statement)
                        fail_msg("%s: %zu of %zu bytes, rows %lu, affected %lu, status %x, error "
                                 "%u, statement %u",
                                 c->name, whole.taken, b.n, (unsigned long)whole.r.rows,
                                 (unsigned long)whole.r.affected, (unsigned)status,
                                 (unsigned)whole.r.error, (unsigned)whole.r.statement_id);
        }
        for (size_t cut = 1; cut < b.n; cut++) {
                struct heard in_two = hear_all(c, b, cut, b.n);
                heard_the_same(&whole, &in_two);
                struct heard in_pieces = hear_all(c, b, cut, cut);
                heard_the_same(&whole, &in_pieces);
                struct heard then_single = hear_all(c, b, cut, 1);
                heard_the_same(&whole, &then_single);
        }
}

/* clang-format off */
static const struct reply_case recorded[] = {
        {"select", MYSQL_EXPECT_RESULT, 0,
         "01000001021e00000203646566047465737401740174016101610c3f000b0000000303500000001e"
         "00000303646566047465737401740174016201620c2d0024000000fd000000000005000004fe0000"
         "22000400000501310178030000060132fb05000007fe00002200",
         {"D", .rows = 2, .status = 0x22}},
        {"select", MYSQL_EXPECT_RESULT, CACHING,
         "0200000102011e00000203646566047465737401740174016101610c3f000b000000030350000000"
         "1e00000303646566047465737401740174016201620c2d0024000000fd000000000005000004fe00"
         "0022000400000501310178030000060132fb040000070137017a05000008fe00002200",
         {"D", .rows = 3, .status = 0x22}},
        {"select", MYSQL_EXPECT_RESULT, MODERN,
         "0200000102011f0000020364656604746573740174017401610161000c3f000b0000000303500000"
         "001f0000030364656604746573740174017401620162000c2d0024000000fd000000000004000004"
         "01310178030000050132fb040000060137017a07000007fe000022000000",
         {"D", .rows = 3, .status = 0x22}},
        {"replace", MYSQL_EXPECT_RESULT, 0,
         "2e00000100020002000000265265636f7264733a203220204475706c6963617465733a2030202057"
         "61726e696e67733a2030",
         {"D", .affected = 2, .status = 2}},
        {"begin", MYSQL_EXPECT_RESULT, 0,
         "0700000100000003000000",
         {"D", .status = 3}},
        {"three statements", MYSQL_EXPECT_RESULT, 0,
         "010000010117000002036465660000000131000c3f000100000003810000000005000003fe00000b"
         "0005000004fe00000b00010000050117000006036465660000000132000c3f000100000003810000"
         "000005000007fe00000b0002000008013205000009fe00000b000700000a00000003000000",
         {"D", .rows = 1, .status = 3}},
        {"three statements", MYSQL_EXPECT_RESULT, MODERN,
         "0200000101011800000203646566000000013100000c3f000100000003810000000007000003fe00"
         "000b0000000200000401011800000503646566000000013200000c3f000100000003810000000002"
         "000006013207000007fe00000b0000000700000800000003000000",
         {"D", .rows = 1, .status = 3}},
        {"ok then error", MYSQL_EXPECT_RESULT, 0,
         "070000010000000b000000a5000002ff2804233432303030596f75206861766520616e206572726f"
         "7220696e20796f75722053514c2073796e7461783b20636865636b20746865206d616e75616c2074"
         "68617420636f72726573706f6e647320746f20796f7572204d617269614442207365727665722076"
         "657273696f6e20666f72207468652072696768742073796e74617820746f20757365206e65617220"
         "276e6f6e73656e736527206174206c696e652031",
         {"D", .error = 1064, .status = 0x0b}},
        {"an unknown command", MYSQL_EXPECT_RESULT, MODERN,
         "18000001ff1704233038533031556e6b6e6f776e20636f6d6d616e64",
         {"D", .error = 1047, .status = -1}},
        {"prepare", MYSQL_EXPECT_PREPARE, 0,
         "0c0000010001000000020002000000001700000203646566000000013f000c3f0000000000068000"
         "0000001700000303646566000000013f000c3f000000000006800000000005000004fe000002001e"
         "00000503646566047465737401740174016101610c3f000b0000000303500000001e000006036465"
         "66047465737401740174016201620c2d0024000000fd000000000005000007fe00000200",
         {"D", .status = 2, .statement = 1}},
        {"prepare", MYSQL_EXPECT_PREPARE, MODERN,
         "0c0000010001000000020002000000001800000203646566000000013f00000c3f00000000000680"
         "000000001800000303646566000000013f00000c3f00000000000680000000001f00000403646566"
         "04746573740174017401610161000c3f000b0000000303500000001f000005036465660474657374"
         "0174017401620162000c2d0024000000fd0000000000",
         {"D", .status = -1, .statement = 1}},
        {"prepare do", MYSQL_EXPECT_PREPARE, 0,
         "0c000001000200000000000000000000",
         {"D", .status = -1, .statement = 2}},
        {"prepare do ?", MYSQL_EXPECT_PREPARE, 0,
         "0c0000010003000000000001000000001700000203646566000000013f000c3f0000000000068000"
         "00000005000003fe00000200",
         {"D", .status = 2, .statement = 3}},
        {"prepare do ?", MYSQL_EXPECT_PREPARE, MODERN,
         "0c0000010003000000000001000000001800000203646566000000013f00000c3f00000000000680"
         "00000000",
         {"D", .status = -1, .statement = 3}},
        {"prepare without parameters", MYSQL_EXPECT_PREPARE, 0,
         "0c0000010004000000020000000000001e00000203646566047465737401740174016101610c3f00"
         "0b0000000303500000001e00000303646566047465737401740174016201620c2d0024000000fd00"
         "0000000005000004fe00000200",
         {"D", .status = 2, .statement = 4}},
        {"execute", MYSQL_EXPECT_EXECUTE, 0,
         "01000001021e00000203646566047465737401740174016101610c3f000b0000000303500000001e"
         "00000303646566047465737401740174016201620c2d0024000000fd000000000005000004fe0000"
         "02000800000500000100000001780600000600080200000005000007fe00000200",
         {"D", .rows = 2, .status = 2}},
        {"execute, columns known", MYSQL_EXPECT_EXECUTE, CACHING,
         "02000001020005000002fe0000020008000003000001000000017806000004000802000000080000"
         "05000007000000017a05000006fe00000200",
         {"D", .rows = 3, .status = 2}},
        {"execute, columns known", MYSQL_EXPECT_EXECUTE, MODERN,
         "0200000102000800000200000100000001780600000300080200000008000004000007000000017a"
         "07000005fe000002000000",
         {"D", .rows = 3, .status = 2}},
        {"execute cursor", MYSQL_EXPECT_EXECUTE, 0,
         "01000001021e00000203646566047465737401740174016101610c3f000b0000000301100000001e"
         "00000303646566047465737401740174016201620c2d0024000000fd000000000005000004fe0000"
         "4200",
         {"D", .status = 0x42}},
        {"execute cursor", MYSQL_EXPECT_EXECUTE, CACHING,
         "0200000102011e00000203646566047465737401740174016101610c3f000b000000030110000000"
         "1e00000303646566047465737401740174016201620c2d0024000000fd000000000005000004fe00"
         "004200",
         {"D", .status = 0x42}},
        {"execute cursor", MYSQL_EXPECT_EXECUTE, MODERN,
         "0200000102011f0000020364656604746573740174017401610161000c3f000b0000000301100000"
         "001f0000030364656604746573740174017401620162000c2d0024000000fd000000000007000004"
         "fe000042000000",
         {"D", .status = 0x42}},
        {"fetch 1", MYSQL_EXPECT_ROWS, 0,
         "08000001000001000000017805000002fe00004200",
         {"D", .rows = 1, .status = 0x42}},
        {"fetch 10", MYSQL_EXPECT_ROWS, MODERN,
         "0600000100080200000008000002000007000000017a07000003fe000082000000",
         {"D", .rows = 2, .status = 0x82}},
        {"fetch bad", MYSQL_EXPECT_ROWS, 0,
         "4c000001ffdb04234859303030556e6b6e6f776e2070726570617265642073746174656d656e7420"
         "68616e646c657220283939392920676976656e20746f206d7973716c645f73746d745f6665746368",
         {"D", .error = 1243, .status = -1}},
        {"field list", MYSQL_EXPECT_COLUMNS, 0,
         "2000000103646566047465737401740174016101610c3f000b00000003035000000001301f000002"
         "03646566047465737401740174016201620c2d0024000000fd0000000000fb05000003fe00000200",
         {"D", .status = 2}},
        {"field list", MYSQL_EXPECT_COLUMNS, MODERN,
         "210000010364656604746573740174017401610161000c3f000b0000000303500000000130200000"
         "020364656604746573740174017401620162000c2d0024000000fd0000000000fb07000003fe0000"
         "02000000",
         {"D", .status = 2}},
        {"field list, no table", MYSQL_EXPECT_COLUMNS, 0,
         "28000001ff7a042334325330325461626c652027746573742e6e6f6e652720646f65736e27742065"
         "78697374",
         {"D", .error = 1146, .status = -1}},
        {"statistics", MYSQL_EXPECT_PACKET, 0,
         "6f000001557074696d653a20352020546872656164733a203220205175657374696f6e733a203235"
         "2020536c6f7720717565726965733a203020204f70656e733a20313120204f70656e207461626c65"
         "733a203620205175657269657320706572207365636f6e64206176673a20352e303030",
         {"D", .status = -1}},
        {"set option", MYSQL_EXPECT_PACKET, 0,
         "05000001fe00000200",
         {"D", .status = 2}},
        {"set option", MYSQL_EXPECT_PACKET, MODERN,
         "07000001fe000002000000",
         {"D", .status = 2}},
        {"set option", MYSQL_EXPECT_RESULT, 0,
         "05000001fe00000200",
         {"D", .status = 2}},
        {"set option", MYSQL_EXPECT_RESULT, MODERN,
         "07000001fe000002000000",
         {"D", .status = 2}},
        {"init db", MYSQL_EXPECT_PACKET, MODERN,
         "1000000100000002400000000701050474657374",
         {"D", .status = 0x4002}},
        {"load data, with progress", MYSQL_EXPECT_RESULT, MODERN,
         "02000001fb7819000004ffffff0102020000000f456e642062756c6b20696e736572743700000500"
         "0000020001002f5265636f7264733a2031202044656c657465643a20302020536b69707065643a20"
         "3120205761726e696e67733a2031",
         {"FD", .affected = 0, .status = 2}},
        {"load data", MYSQL_EXPECT_RESULT, 0,
         "02000001fb7837000004000100020000002f5265636f7264733a2031202044656c657465643a2030"
         "2020536b69707065643a203020205761726e696e67733a2030",
         {"FD", .affected = 1, .status = 2}},
        {"alter table, with progress", MYSQL_EXPECT_RESULT, CACHING,
         "1b000001ffffff010102050d0011636f707920746f20746d70207461626c6517000002ffffff0102"
         "020000000d456e61626c696e67206b6579733600000300fde0930400020000002b5265636f726473"
         "3a2033303030303020204475706c6963617465733a203020205761726e696e67733a2030",
         {"D", .affected = 300000, .status = 2}},
        {"check table, with progress", MYSQL_EXPECT_RESULT, CACHING,
         "0200000104011b00000203646566000000055461626c65000c2d0000020000fd0000270000180000"
         "0303646566000000024f70000c2d0028000000fd00002700001e00000403646566000000084d7367"
         "5f74797065000c2d0028000000fd00002700001e00000503646566000000084d73675f7465787400"
         "0c2d0000001800fa000027000005000006fe0000020017000007ffffff0102030000000d43686563"
         "6b696e67206b65797317000008ffffff0103030000000d436865636b696e67206461746119000009"
         "08746573742e62696705636865636b06737461747573024f4b0500000afe00000200",
         {"D", .rows = 1, .status = 2}},
        {"call", MYSQL_EXPECT_RESULT, 0,
         "010000010117000002036465660000000131000c3f000100000003810000000005000003fe00000a"
         "0002000004013105000005fe00000a00010000060117000007036465660000000132000c3f000100"
         "000003810000000005000008fe00000a000200000901320500000afe00000a000700000b00000002"
         "000000",
         {"D", .rows = 2, .status = 2}},
        {"call", MYSQL_EXPECT_RESULT, MODERN,
         "0200000101011800000203646566000000013100000c3f0001000000038100000000020000030131"
         "07000004fe00000a0000000200000501011800000603646566000000013200000c3f000100000003"
         "810000000002000007013207000008fe00000a0000000700000900000002000000",
         {"D", .rows = 2, .status = 2}},
        {"login reply", MYSQL_EXPECT_LOGIN, MODERN,
         "1000000200000002400000000701050474657374",
         {"D", .status = 0x4002}},
        {"change user", MYSQL_EXPECT_LOGIN, MODERN,
         "1000000100000002400000000701050474657374",
         {"D", .status = 0x4002}},
};
/* clang-format on */

static void a_recorded_reply_means_the_same_however_it_is_cut(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(recorded); i++) {
                struct bytes b = bytes_of(recorded[i].hex);
                means(&recorded[i], b);
                free(b.at);
        }
}

#define OK_2     "00 00 00 02 00 00 00"
#define OK_MORE  "00 03 00 0a 00 00 00"
#define EOF_2    "fe 00 00 02 00"
#define EOF_MORE "fe 00 00 0a 00"
#define END_2    "fe 00 00 02 00 00 00"
#define END_MORE "fe 00 00 0a 00 00 00"
#define COLUMN   "03 64 65 66 00 00 00 01 61 00 0c 2d 00 00 00 00 00 fd 00 00 00 00 00"
#define ERROR    "ff bd 04 23 34 30 30 30 31 6e 6f" /* 1213 */
#define PROGRESS "ff ff ff 01 02 03 00 00 00 04 77 6f 72 6b"
#define BIG_OK                                                                                     \
        "00 fe ff ff ff ff ff ff ff 7f fe ff ff ff ff ff ff ff ff 03 00 00 00 05 68 65 6c 6c 6f"
/* Rows that begin like something else: with NULL, and with the header byte of OK. */
#define ROW      "01 78"
#define NULL_ROW "fb"
#define ZERO_ROW "00 01 78"

/* clang-format off */
static const struct reply_case made[] = {
        /* OK and errors */
        {"ok", MYSQL_EXPECT_RESULT, 0, OK_2, {"D", .status = 2}},
        {"longest numbers", MYSQL_EXPECT_RESULT, 0, BIG_OK,
         {"D", .affected = INT64_MAX, .status = 3}},
        {"error", MYSQL_EXPECT_RESULT, 0, ERROR, {"D", .error = 1213, .status = -1}},
        {"shortest error", MYSQL_EXPECT_RESULT, 0, "ff 10 04", {"D", .error = 1040, .status = -1}},
        {"oks", MYSQL_EXPECT_RESULT, 0, OK_MORE "|" OK_MORE "|" OK_2,
         {"D", .affected = 6, .status = 2}},
        {"ok, error", MYSQL_EXPECT_RESULT, 0, OK_MORE "|" ERROR,
         {"D", .affected = 3, .error = 1213, .status = 0x0a}},
        /* a file */
        {"file", MYSQL_EXPECT_RESULT, 0, "fb 2f 74 6d 70|" OK_2, {"FD", .status = 2}},
        {"file without a name", MYSQL_EXPECT_RESULT, 0, "fb|" ERROR,
         {"FD", .error = 1213, .status = -1}},
        {"two files", MYSQL_EXPECT_EXECUTE, NEW, "fb 61|" OK_MORE "|fb 62|" OK_2,
         {"FFD", .affected = 3, .status = 2}},
        /* result sets */
        {"rows", MYSQL_EXPECT_RESULT, 0,
         "01|" COLUMN "|" EOF_2 "|" ROW "|" NULL_ROW "|" ZERO_ROW "|" EOF_2,
         {"D", .rows = 3, .status = 2}},
        {"rows, new end", MYSQL_EXPECT_RESULT, NEW,
         "01|" COLUMN "|" ROW "|" NULL_ROW "|" ZERO_ROW "|" END_2,
         {"D", .rows = 3, .status = 2}},
        {"no rows", MYSQL_EXPECT_RESULT, 0, "02|" COLUMN "|" COLUMN "|" EOF_2 "|" EOF_2,
         {"D", .status = 2}},
        {"no rows, new end", MYSQL_EXPECT_RESULT, NEW, "02|" COLUMN "|" COLUMN "|" END_2,
         {"D", .status = 2}},
        {"number of columns in two bytes", MYSQL_EXPECT_RESULT, NEW, "fc 02 00|" COLUMN "|" COLUMN
         "|" END_2, {"D", .status = 2}},
        {"error between rows", MYSQL_EXPECT_RESULT, 0,
         "01|" COLUMN "|" EOF_2 "|" ROW "|" ERROR, {"D", .rows = 1, .error = 1213, .status = 2}},
        {"error after the columns", MYSQL_EXPECT_RESULT, NEW, "01|" COLUMN "|" ERROR,
         {"D", .error = 1213, .status = -1}},
        {"error instead of the EOF", MYSQL_EXPECT_RESULT, 0, "01|" COLUMN "|" ERROR,
         {"D", .error = 1213, .status = -1}},
        {"result sets", MYSQL_EXPECT_RESULT, 0,
         "01|" COLUMN "|" EOF_MORE "|" ROW "|" EOF_MORE "|01|" COLUMN "|" EOF_2 "|" ROW "|" EOF_2,
         {"D", .rows = 2, .status = 2}},
        {"result set and OK", MYSQL_EXPECT_EXECUTE, NEW,
         "01|" COLUMN "|" ROW "|" END_MORE "|" OK_2, {"D", .rows = 1, .status = 2}},
        /* A row whose first column has 16 MiB or more begins with fe, and its packet is full; without
         * DEPRECATE_EOF a shorter one is a row already from nine bytes on. */
        {"row that begins with fe", MYSQL_EXPECT_RESULT, 0,
         "01|" COLUMN "|" EOF_2 "|fe 00 00 00 00 00 00 00 00|" EOF_2,
         {"D", .rows = 1, .status = 2}},
        {"long end of rows", MYSQL_EXPECT_RESULT, NEW,
         "01|" COLUMN "|" ROW "|fe fc 00 01 fd 00 00 01 22 00 00 00 03 61 62 63",
         {"D", .rows = 1, .affected = 256, .status = 0x22}},
        /* metadata that the client knows already */
        {"columns follow", MYSQL_EXPECT_EXECUTE, CACHING, "01 01|" COLUMN "|" EOF_2 "|" ROW "|" EOF_2,
         {"D", .rows = 1, .status = 2}},
        {"no columns, but the EOF", MYSQL_EXPECT_EXECUTE, CACHING, "01 00|" EOF_2 "|" ROW "|" EOF_2,
         {"D", .rows = 1, .status = 2}},
        {"no columns, no EOF", MYSQL_EXPECT_EXECUTE, CACHING | NEW, "01 00|" ROW "|" END_2,
         {"D", .rows = 1, .status = 2}},
        {"no flag", MYSQL_EXPECT_RESULT, CACHING, "01|" COLUMN "|" EOF_2 "|" EOF_2,
         {"D", .status = 2}},
        /* progress, wherever the server works */
        {"progress", MYSQL_EXPECT_RESULT, CACHING, PROGRESS "|" PROGRESS "|" OK_2,
         {"D", .status = 2}},
        {"progress everywhere", MYSQL_EXPECT_RESULT, CACHING,
         PROGRESS "|01 01|" PROGRESS "|" COLUMN "|" PROGRESS "|" EOF_2 "|" PROGRESS "|" ROW "|"
         PROGRESS "|" EOF_MORE "|" PROGRESS "|" ERROR,
         {"D", .rows = 1, .error = 1213, .status = 0x0a}},
        {"no progress was agreed on", MYSQL_EXPECT_RESULT, 0, PROGRESS,
         {"D", .error = 0xffff, .status = -1}},
        /* cursors */
        {"cursor", MYSQL_EXPECT_EXECUTE, 0, "01|" COLUMN "|fe 00 00 42 00", {"D", .status = 0x42}},
        {"cursor, columns known", MYSQL_EXPECT_EXECUTE, CACHING, "01 00|fe 00 00 42 00",
         {"D", .status = 0x42}},
        {"cursor, new end", MYSQL_EXPECT_EXECUTE, NEW, "01|" COLUMN "|fe 00 00 42 00 00 00",
         {"D", .status = 0x42}},
        {"cursor, more results", MYSQL_EXPECT_EXECUTE, 0, "01|" COLUMN "|fe 00 00 4a 00|" OK_2,
         {"D", .status = 2}},
        {"no cursor of a query", MYSQL_EXPECT_RESULT, 0,
         "01|" COLUMN "|fe 00 00 42 00|" ROW "|" EOF_2, {"D", .rows = 1, .status = 2}},
        {"fetch", MYSQL_EXPECT_ROWS, 0, ZERO_ROW "|" ZERO_ROW "|fe 00 00 82 00",
         {"D", .rows = 2, .status = 0x82}},
        {"fetch, new end", MYSQL_EXPECT_ROWS, NEW, ZERO_ROW "|fe 00 00 42 00 00 00",
         {"D", .rows = 1, .status = 0x42}},
        {"fetch that ends with MORE_RESULTS", MYSQL_EXPECT_ROWS, 0, EOF_MORE,
         {"D", .status = 0x0a}},
        /* prepared statements: statement, columns, parameters */
        {"prepare", MYSQL_EXPECT_PREPARE, 0,
         "00 07 00 00 80 01 00 02 00 00 00 00|" COLUMN "|" COLUMN "|" EOF_2 "|" COLUMN "|" EOF_2,
         {"D", .status = 2, .statement = 0x80000007}},
        {"prepare, new end", MYSQL_EXPECT_PREPARE, NEW,
         "00 07 00 00 00 02 00 01 00 00 00 00|" COLUMN "|" COLUMN "|" COLUMN,
         {"D", .status = -1, .statement = 7}},
        {"prepare, parameters only, new end", MYSQL_EXPECT_PREPARE, NEW,
         "00 07 00 00 00 00 00 02 00 00 00 00|" COLUMN "|" COLUMN,
         {"D", .status = -1, .statement = 7}},
        {"prepare, error", MYSQL_EXPECT_PREPARE, NEW, ERROR, {"D", .error = 1213, .status = -1}},
        {"prepare, 65,537 columns told as 1", MYSQL_EXPECT_PREPARE, 0,
         "00 07 00 00 00 01 00 00 00 00 00 00|" COLUMN "|" COLUMN "|" EOF_2,
         {"D", .status = 2, .statement = 7}},
        /* the others */
        {"no fields", MYSQL_EXPECT_COLUMNS, 0, EOF_2, {"D", .status = 2}},
        {"fields", MYSQL_EXPECT_COLUMNS, NEW, COLUMN "|" COLUMN "|" END_2, {"D", .status = 2}},
        {"statistics", MYSQL_EXPECT_PACKET, 0, "55 70 74 69 6d 65 3a 20 35", {"D", .status = -1}},
        {"empty statistics", MYSQL_EXPECT_PACKET, 0, "", {"D", .status = -1}},
        {"ping", MYSQL_EXPECT_PACKET, 0, OK_2, {"D", .status = 2}},
        {"a packet like OK", MYSQL_EXPECT_PACKET, 0, "00 01", {"D", .status = -1}},
        {"a packet like EOF", MYSQL_EXPECT_PACKET, 0, "fe 01", {"D", .status = -1}},
        {"a refused command", MYSQL_EXPECT_PACKET, 0, ERROR, {"D", .error = 1213, .status = -1}},
        /* logins */
        {"welcome", MYSQL_EXPECT_LOGIN, 0, OK_2, {"D", .status = 2}},
        {"refused", MYSQL_EXPECT_LOGIN, 0, ERROR, {"D", .error = 1213, .status = -1}},
        {"other plugin", MYSQL_EXPECT_LOGIN, 0, "fe 65 64 32 35 35 31 39 00 01 02 03|" OK_2,
         {"AD", .status = 2}},
        {"old password", MYSQL_EXPECT_LOGIN, 0, "fe|" ERROR, {"AD", .error = 1213, .status = -1}},
        {"known to caching_sha2_password", MYSQL_EXPECT_LOGIN, NEW, "01 03|" OK_2,
         {"D", .status = 2}},
        {"unknown to it: password or key, key, proof", MYSQL_EXPECT_LOGIN, NEW,
         "01 04|01 2d 2d 2d 2d 2d|" OK_2, {"AAD", .status = 2}},
        {"switched, and known", MYSQL_EXPECT_LOGIN, NEW, "fe 63 00 01 02|01 03|" OK_2,
         {"AD", .status = 2}},
        {"second factor", MYSQL_EXPECT_LOGIN, NEW, "01 03|02 66 00 01|" OK_2, {"AD", .status = 2}},
        {"questions of a dialog", MYSQL_EXPECT_LOGIN, 0, "04 50 49 4e 3a|||05 3f|" OK_2,
         {"AAAAD", .status = 2}},
};

static const struct reply_case broken[] = {
        {"empty packet", MYSQL_EXPECT_RESULT, 0, "", {.events = "B"}},
        {"short OK", MYSQL_EXPECT_RESULT, 0, "00 00 00 02", {.events = "B"}},
        {"OK with a number that is none", MYSQL_EXPECT_RESULT, 0, "00 fb 00 02 00 00 00", {.events = "B"}},
        {"OK with another", MYSQL_EXPECT_RESULT, 0, "00 00 ff 02 00 00 00", {.events = "B"}},
        {"short error", MYSQL_EXPECT_RESULT, 0, "ff 10", {.events = "B"}},
        {"short EOF", MYSQL_EXPECT_RESULT, 0, "fe 00 00 02", {.events = "B"}},
        {"short number of columns", MYSQL_EXPECT_RESULT, 0, "fc 01", {.events = "B"}},
        {"no columns at all", MYSQL_EXPECT_RESULT, 0, "fc 00 00", {.events = "B"}},
        {"flag that was not agreed on", MYSQL_EXPECT_RESULT, 0, "01 01", {.events = "B"}},
        {"bytes after the flag", MYSQL_EXPECT_RESULT, CACHING, "01 01 01", {.events = "B"}},
        {"text for a number of columns", MYSQL_EXPECT_RESULT, 0,
         "55 70 74 69 6d 65 3a 20 35 20 54 68 72 65 61 64 73 3a 20 31 20 20 20 20 20 20 20", {.events = "B"}},
        {"column too many", MYSQL_EXPECT_RESULT, 0, "01|" COLUMN "|" COLUMN, {.events = "B"}},
        {"column too few", MYSQL_EXPECT_RESULT, 0, "02|" COLUMN "|" EOF_2, {.events = "B"}},
        {"column that was not to come", MYSQL_EXPECT_RESULT, CACHING, "01 00|" COLUMN, {.events = "B"}},
        {"long EOF after columns", MYSQL_EXPECT_RESULT, 0, "01|" COLUMN "|" END_2, {.events = "B"}},
        {"EOF that was not agreed on", MYSQL_EXPECT_RESULT, NEW, "02|" COLUMN "|" EOF_2, {.events = "B"}},
        {"empty row", MYSQL_EXPECT_RESULT, NEW, "01|" COLUMN "|" ROW "||" ROW, {.events = "B"}},
        {"end of rows that makes no sense", MYSQL_EXPECT_ROWS, NEW, "fe fb fb fb fb fb fb", {.events = "B"}},
        {"short prepare", MYSQL_EXPECT_PREPARE, 0, "00 01 00 00 00 01 00 00", {.events = "B"}},
        {"prepare that is none", MYSQL_EXPECT_PREPARE, 0, "01 01 00 00 00 01 00 00 00", {.events = "B"}},
        {"parameter too many", MYSQL_EXPECT_PREPARE, 0,
         "00 07 00 00 00 00 00 01 00 00 00 00|" COLUMN "|" COLUMN, {.events = "B"}},
        {"parameter too few", MYSQL_EXPECT_PREPARE, 0, "00 07 00 00 00 00 00 02 00 00 00 00|" COLUMN
         "|" EOF_2, {.events = "B"}},
        {"long EOF after parameters", MYSQL_EXPECT_PREPARE, 0,
         "00 07 00 00 00 00 00 01 00 00 00 00|" COLUMN "|" END_2, {.events = "B"}},
        {"short end of fields", MYSQL_EXPECT_COLUMNS, 0, COLUMN "|fe", {.events = "B"}},
        {"short welcome", MYSQL_EXPECT_LOGIN, 0, "00", {.events = "B"}},
};
/* clang-format on */

static void a_reply_built_by_hand_means_the_same_however_it_is_cut(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(made); i++) {
                struct bytes b = packets_of(made[i].hex);
                means(&made[i], b);
                free(b.at);
        }
}

static void a_reply_that_makes_no_sense_stays_broken(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
                struct bytes b = packets_of(broken[i].hex);
                enum mysql_event event;
                means(&broken[i], b);
                struct heard h = hear_all(&broken[i], b, b.n, b.n);
                for (size_t n = 0; n <= b.n; n++) {
                        assert_int_equal(mysql_reply_feed(&h.r, b.at, n, &event), 0);
                        assert_int_equal(event, MYSQL_BROKEN);
                }
                free(b.at);
        }
}

static void a_reply_that_is_done_takes_nothing_of_the_next(void **state)
{
        struct reply_case c = {.expect = MYSQL_EXPECT_RESULT};
        struct bytes b = packets_of(OK_2 "|" OK_2);
        enum mysql_event event;

        (void)state;
        struct heard h = hear_all(&c, b, b.n, b.n);
        assert_string_equal(h.events, "D");
        assert_int_equal(h.taken, b.n / 2);
        assert_int_equal(mysql_reply_feed(&h.r, b.at, b.n, &event), 0);
        assert_int_equal(event, MYSQL_REPLY_DONE);
        mysql_reply_begin(&h.r, MYSQL_EXPECT_RESULT, 0);
        assert_int_equal(mysql_reply_feed(&h.r, NULL, 0, &event), 0);
        assert_int_equal(event, MYSQL_NEEDS_MORE);
        assert_int_equal(mysql_reply_feed(&h.r, b.at + b.n / 2, b.n / 2, &event), b.n / 2);
        assert_int_equal(event, MYSQL_REPLY_DONE);
        free(b.at);
}

static void put_packets(struct buf *out, const char *payloads)
{
        struct bytes b = packets_of(payloads);
        buf_put(out, b.at, b.n);
        free(b.at);
}

/* Reads it whole, and cut around each of the places. */
static void means_around(const struct reply_case *c, struct buf *b, const size_t *places, size_t n)
{
        struct bytes bytes = {(uint8_t *)b->ptr, b->len};
        assert_false(b->failed);
        struct heard whole = hear_all(c, bytes, b->len, b->len);
        assert_string_equal(whole.events, c->want.events);
        assert_int_equal(whole.taken, b->len);
        assert_int_equal(whole.r.rows, c->want.rows);
        assert_int_equal(whole.r.status, c->want.status);
        for (size_t i = 0; i < n; i++) {
                for (size_t cut = places[i] - 2; cut < places[i] + 7 && cut < b->len; cut++) {
                        struct heard h = hear_all(c, bytes, cut, b->len);
                        heard_the_same(&whole, &h);
                        struct heard in_pieces = hear_all(c, bytes, cut, 0x200000);
                        heard_the_same(&whole, &in_pieces);
                }
        }
        buf_release(b);
}

static void a_row_is_one_over_all_packets_that_continue_it(void **state)
{
        static const struct reply_case old = {.expect = MYSQL_EXPECT_RESULT,
                                              .want = {"D", .rows = 3, .status = 2}};
        static const struct reply_case new = {
                .expect = MYSQL_EXPECT_RESULT, .caps = NEW, .want = {"D", .rows = 3, .status = 2}};
        struct buf b = {0};
        size_t places[4];

        (void)state;
        put_packets(&b, "01|" COLUMN "|" EOF_2 "|" ROW);
        places[0] = b.len;
        put_long(&b, 0xfe, 0xffffff); /* its first column has 16 MiB: it begins like an end */
        places[1] = b.len;
        put_long(&b, 0xff, 5); /* like an error, but it goes on with the row */
        places[2] = b.len;
        put_packets(&b, ROW "|" EOF_2);
        places[3] = b.len - 9;
        means_around(&old, &b, places, 4);

        put_packets(&b, "01|" COLUMN "|" ROW);
        places[0] = b.len;
        put_long(&b, 0xfe, 0xffffff);
        places[1] = b.len;
        put_long(&b, 0, 0); /* exactly one full packet */
        places[2] = b.len;
        put_packets(&b, ROW "|" END_2);
        means_around(&new, &b, places, 3);

        put_packets(&b, "01|" COLUMN "|" ROW "|" ROW);
        places[0] = b.len;
        put_long(&b, 0xfd, 0xffffff);
        places[1] = b.len;
        put_long(&b, 0xfe, 0xffffff);
        places[2] = b.len;
        put_long(&b, 0xfe, 7);
        places[3] = b.len;
        put_packets(&b, END_2);
        means_around(&new, &b, places, 4);
}

static void an_event_waits_for_the_end_of_its_last_packet(void **state)
{
        static const struct reply_case one = {.expect = MYSQL_EXPECT_PACKET,
                                              .want = {.events = "D"}};
        static const struct reply_case file = {.expect = MYSQL_EXPECT_RESULT,
                                               .want = {"FD", .status = 2}};
        struct buf b = {0};
        size_t places[2];

        (void)state;
        put_long(&b, 'U', 0xffffff);
        places[0] = b.len;
        put_long(&b, 'U', 0);
        means_around(&one, &b, places, 1);
        put_long(&b, 0xfb, 0xffffff);
        places[0] = b.len;
        put_long(&b, 'x', 1);
        places[1] = b.len;
        put_packets(&b, OK_2);
        means_around(&file, &b, places, 2);
}

/* ---- packets of weir's own ---- */

static void an_error_of_ours_is_read_as_one(void **state)
{
        struct reply_case c = {
                "ours", MYSQL_EXPECT_RESULT, 0, "", {"D", .error = 1213, .status = -1}};
        struct buf b = {0};

        (void)state;
        mysql_put_error(&b, 7, 1213, "40001", SLICE_LIT("weir: try again"));
        assert_int_equal(b.len, 4 + 3 + 6 + 15);
        assert_memory_equal(b.ptr, "\x18\0\0\7\xff\xbd\4#40001weir: try again", b.len);
        means(&c, (struct bytes){(uint8_t *)b.ptr, b.len});
        buf_clear(&b);
        mysql_put_error(&b, 0, 1040, NULL, SLICE_LIT("full"));
        assert_int_equal(b.len, 4 + 3 + 4);
        assert_memory_equal(b.ptr, "\7\0\0\0\xff\x10\4full", b.len);
        buf_release(&b);
}

static void a_long_error_is_cut_between_characters(void **state)
{
        char text[600];
        struct buf b = {0};

        (void)state;
        memset(text, 'x', sizeof(text));
        mysql_put_error(&b, 1, 1213, "40001", slice_make(text, sizeof(text)));
        assert_int_equal(b.len, 512);
        for (size_t at = 495; at < 500; at++) { /* 499 bytes are left for the text */
                buf_clear(&b);
                memset(text, 'x', sizeof(text));
                memcpy(text + at, "\xf0\x9f\x8c\x8a", 4);
                mysql_put_error(&b, 1, 1213, "40001", slice_make(text, sizeof(text)));
                assert_int_equal(b.len, at + 4 <= 499 ? 512 : 512 - (499 - at));
        }
        memset(text, 0x80, sizeof(text)); /* no UTF-8 at all */
        buf_clear(&b);
        mysql_put_error(&b, 1, 1213, "40001", slice_make(text, sizeof(text)));
        assert_true(b.len > 500 && b.len <= 512);
        buf_release(&b);
}

static void a_table_of_ours_is_read_as_a_result_set(void **state)
{
        static const char *const columns[] = {"class", "tier", "held"};
        static const uint64_t with[] = {MYSQL_DEPRECATE_EOF, MARIADB_CACHE_METADATA,
                                        MARIADB_EXTENDED_TYPES, MYSQL_SESSION_TRACK};
        static const char long_text[300] = "a text longer than one byte of length tells";
        struct slice row[] = {SLICE_LIT("etl"), SLICE_NONE, {long_text, sizeof(long_text)}};
        struct slice empty[] = {SLICE_LIT(""), SLICE_LIT("x"), SLICE_LIT("1")};

        (void)state;
        for (unsigned set = 0; set < 16; set++) {
                struct reply_case c = {
                        "table", MYSQL_EXPECT_RESULT, 0, "", {"D", .rows = 2, .status = 3}};
                struct buf b = {0};
                for (size_t i = 0; i < ARRAY_LEN(with); i++)
                        c.caps |= set >> i & 1 ? with[i] : 0;
                struct mysql_table t = {.out = &b, .caps = c.caps, .status = 0x4803 | 0x08};
                mysql_table_begin(&t, columns, ARRAY_LEN(columns));
                mysql_table_row(&t, row);
                mysql_table_row(&t, empty);
                mysql_table_end(&t);
                assert_false(b.failed);
                assert_int_equal(t.sequence, set & 1 ? 8 : 9);
                means(&c, (struct bytes){(uint8_t *)b.ptr, b.len});
                buf_release(&b);
        }
}

/* The bytes that MariaDB sends for SELECT 'x' AS a, except the width and the flags of the column.
 */
static void a_table_of_ours_has_the_fields_of_the_server(void **state)
{
        static const char *const columns[] = {"a"};
        struct slice row[] = {SLICE_LIT("x")};
        struct buf b = {0};
        struct mysql_table t = {.out = &b, .caps = MODERN, .status = 2};

        (void)state;
        mysql_table_begin(&t, columns, 1);
        mysql_table_row(&t, row);
        mysql_table_end(&t);
        struct bytes want = bytes_of("02000001 0101"
                                     "18000002 03646566 00 00 00 0161 00 00 0c 2d00 00040000 fd "
                                     "0000 00 0000"
                                     "02000003 0178"
                                     "07000004 fe 00 00 0200 0000");
        assert_int_equal(b.len, want.n);
        assert_memory_equal(b.ptr, want.at, want.n);
        free(want.at);
        buf_release(&b);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_recorded_reply_means_the_same_however_it_is_cut),
                cmocka_unit_test(a_reply_built_by_hand_means_the_same_however_it_is_cut),
                cmocka_unit_test(a_reply_that_makes_no_sense_stays_broken),
                cmocka_unit_test(a_reply_that_is_done_takes_nothing_of_the_next),
                cmocka_unit_test(a_row_is_one_over_all_packets_that_continue_it),
                cmocka_unit_test(an_event_waits_for_the_end_of_its_last_packet),
                cmocka_unit_test(an_error_of_ours_is_read_as_one),
                cmocka_unit_test(a_long_error_is_cut_between_characters),
                cmocka_unit_test(a_table_of_ours_is_read_as_a_result_set),
                cmocka_unit_test(a_table_of_ours_has_the_fields_of_the_server),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
