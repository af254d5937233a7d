/* Lets ledger.py call cluster/ledger.h on real databases: a line of words is one call.
 *
 *      ledger_store KIND DURABILITY USER PASSWORD DATABASE PORT...     KIND: postgres, mariadb
 *
 *      init USER                                       what was done, and the grants
 *      connect, disconnect, where, barrier, verify, lease_ms
 *      append SEQ EPOCH NODE KIND SEED BYTES PSEQ PEPOCH PNODE         the outcome
 *      has SEQ EPOCH NODE KIND SEED BYTES              0 or 1, then the head that is there
 *      tail                                            SEQ EPOCH NODE KIND, first
 *      read FROM BYTES                                 a line for each: head, bytes, checksum
 *      sum SEED BYTES                                  the checksum of such a body
 *      trim FROM BEFORE                                the new FROM
 *      take NODE MS, give NODE TO MS                   0 or 1
 *      look                                            NODE LEFT_MS
 *      meet NAME NODE ADDRESS PRIORITY EPOCH SEQ DIGEST_SEQ DIGEST     a line for each member
 *      within MS                                       from now on a call may take that long
 *
 * LEDGER_TLS and LEDGER_CA in the environment are the mode of TLS (a number) and a path.
 *
 * "-" is an empty word.  Each answer ends with a line "= OK", or "= " with the name and the detail
 * of the error; then " closed" stands there when the connection is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crc.h"
#include "cluster/ledger.h"

#define WORDS_MAX  12
#define LINE_BYTES 1024

static const char *const outcomes[] = {"durable", "refused", "taken", "busy", "full", "unknown"};

static struct sql_login logins[8];
static struct ledger_options options = {.logins = logins, .space = LEDGER_SPACE};
static bool is_postgres;
static struct ledger *ledger;
static int64_t within_ms = 20000;
static char *body;
static char host[] = "127.0.0.1";
static struct sql_tls tls;

static struct sql_wait patience(void)
{
        return (struct sql_wait){.stop_fd = -1,
                                 .deadline_ns = clock_boot_ns() + within_ms * NS_PER_MS,
                                 .timeout_ms = within_ms};
}

static uint64_t number(const char *word)
{
        return strtoull(word, NULL, 10);
}

static const char *text(const char *word)
{
        return strcmp(word, "-") == 0 ? "" : word;
}

/* Any bytes, zeros and quotes among them. */
static struct slice make_body(const char *seed, const char *bytes)
{
        uint64_t x = number(seed) * 2654435761U + 1;
        size_t n = number(bytes);
        free(body);
        body = malloc(n + 1);
        for (size_t i = 0; i < n; i++) {
                x = x * 6364136223846793005U + 1442695040888963407U;
                body[i] = (char)(x >> 56);
        }
        return slice_make(body, n);
}

static struct ledger_head make_head(char **words)
{
        struct ledger_head head = {.seq = number(words[0]), .epoch = number(words[1])};
        (void)snprintf(head.node, sizeof(head.node), "%s", text(words[2]));
        return head;
}

static void print_head(const struct ledger_head *head)
{
        (void)printf("%" PRIu64 " %" PRIu64 " %s %d", head->seq, head->epoch,
                     *head->node ? head->node : "-", (int)head->kind);
}

static int run_init(char **words, const struct sql_wait *w, struct problem *p)
{
        struct buf told = {0};
        int r = (is_postgres ? ledger_postgres_init : ledger_mariadb_init)(&options, words[0], w,
                                                                           &told, p);
        if (told.len)
                (void)fwrite(told.ptr, 1, told.len, stdout);
        buf_release(&told);
        return r;
}

static int run_connect(char **words, const struct sql_wait *w, struct problem *p)
{
        (void)words;
        return ledger->ops->connect(ledger, w, p);
}

static int run_disconnect(char **words, const struct sql_wait *w, struct problem *p)
{
        (void)words;
        (void)w;
        (void)p;
        ledger->ops->disconnect(ledger);
        return OK;
}

static int run_where(char **words, const struct sql_wait *w, struct problem *p)
{
        (void)words;
        (void)w;
        (void)p;
        (void)printf("%s\n", ledger->ops->where(ledger));
        return OK;
}

static int run_barrier(char **words, const struct sql_wait *w, struct problem *p)
{
        (void)words;
        return ledger->ops->barrier(ledger, w, p);
}

static int run_verify(char **words, const struct sql_wait *w, struct problem *p)
{
        (void)words;
        return ledger->ops->verify(ledger, w, p);
}

static int run_lease_ms(char **words, const struct sql_wait *w, struct problem *p)
{
        (void)words;
        (void)w;
        (void)p;
        (void)printf("%" PRId64 "\n", ledger->ops->lease_ms(ledger));
        return OK;
}

static int run_append(char **words, const struct sql_wait *w, struct problem *p)
{
        struct ledger_head head = make_head(words), previous = make_head(words + 6);
        head.kind = number(words[3]) ? LEDGER_EPOCH : LEDGER_BATCH;
        enum ledger_outcome o =
                ledger->ops->append(ledger, &head, make_body(words[4], words[5]), &previous, w, p);
        (void)printf("%s\n", outcomes[o]);
        if (o != LEDGER_DURABLE)
                (void)printf("%s\n", p->detail);
        return OK;
}

static int run_has(char **words, const struct sql_wait *w, struct problem *p)
{
        struct ledger_head head = make_head(words), seen;
        bool is_there;
        head.kind = number(words[3]) ? LEDGER_EPOCH : LEDGER_BATCH;
        int r = ledger->ops->has(ledger, &head, make_body(words[4], words[5]), w, &seen, &is_there,
                                 p);
        if (r != OK)
                return r;
        (void)printf("%d ", is_there);
        print_head(&seen);
        (void)printf("\n");
        return OK;
}

static int run_tail(char **words, const struct sql_wait *w, struct problem *p)
{
        struct ledger_head last;
        uint64_t first;
        (void)words;
        int r = ledger->ops->tail(ledger, w, &last, &first, p);
        if (r != OK)
                return r;
        print_head(&last);
        (void)printf(" %" PRIu64 "\n", first);
        return OK;
}

static void print_batch(void *ctx, const struct ledger_head *head, struct slice b)
{
        (void)ctx;
        print_head(head);
        (void)printf(" %zu %08x\n", b.len, crc32c(0, b.ptr, b.len));
}

static int run_read(char **words, const struct sql_wait *w, struct problem *p)
{
        return ledger->ops->read(ledger, number(words[0]), number(words[1]), w, print_batch, NULL,
                                 p);
}

static int run_sum(char **words, const struct sql_wait *w, struct problem *p)
{
        struct slice b = make_body(words[0], words[1]);
        (void)w;
        (void)p;
        (void)printf("%08x\n", crc32c(0, b.ptr, b.len));
        return OK;
}

static int run_trim(char **words, const struct sql_wait *w, struct problem *p)
{
        uint64_t from = number(words[0]);
        int r = ledger->ops->trim(ledger, &from, number(words[1]), w, p);
        (void)printf("%" PRIu64 "\n", from);
        return r;
}

static int run_take(char **words, const struct sql_wait *w, struct problem *p)
{
        bool is_mine = false;
        int r = ledger->ops->lease_take(ledger, text(words[0]), (int64_t)number(words[1]), w,
                                        &is_mine, p);
        (void)printf("%d\n", is_mine);
        return r;
}

static int run_give(char **words, const struct sql_wait *w, struct problem *p)
{
        bool is_done = false;
        int r = ledger->ops->lease_give(ledger, text(words[0]), text(words[1]),
                                        (int64_t)number(words[2]), w, &is_done, p);
        (void)printf("%d\n", is_done);
        return r;
}

static int run_look(char **words, const struct sql_wait *w, struct problem *p)
{
        struct ledger_lease lease;
        (void)words;
        int r = ledger->ops->lease_look(ledger, w, &lease, p);
        if (r == OK)
                (void)printf("%s %" PRId64 "\n", *lease.node ? lease.node : "-", lease.left_ms);
        return r;
}

static int run_meet(char **words, const struct sql_wait *w, struct problem *p)
{
        struct log_member self = {.priority = (int)strtol(words[3], NULL, 10),
                                  .epoch = number(words[4]),
                                  .seq = number(words[5]),
                                  .digest_seq = number(words[6]),
                                  .digest = number(words[7])};
        struct log_member all[LOG_MEMBERS_MAX];
        size_t n = 0;
        (void)snprintf(self.node, sizeof(self.node), "%s", words[0]);
        (void)snprintf(self.address, sizeof(self.address), "%s", words[2]);
        int r = ledger->ops->meet(ledger, &self, words[1], w, all, LOG_MEMBERS_MAX, &n, p);
        for (size_t i = 0; r == OK && i < n; i++)
                (void)printf("%s %s %d %d %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                             " %" PRId64 "\n",
                             all[i].node, all[i].address, all[i].is_self, all[i].is_leader,
                             all[i].priority, all[i].epoch, all[i].seq, all[i].digest_seq,
                             all[i].digest, all[i].seen_ms);
        return r;
}

static int run_within(char **words, const struct sql_wait *w, struct problem *p)
{
        (void)w;
        (void)p;
        within_ms = (int64_t)number(words[0]);
        return OK;
}

static const struct {
        const char *name;
        int n_words;
        int (*run)(char **words, const struct sql_wait *w, struct problem *p);
} calls[] = {
        {"init", 1, run_init},     {"connect", 0, run_connect},   {"disconnect", 0, run_disconnect},
        {"where", 0, run_where},   {"barrier", 0, run_barrier},   {"verify", 0, run_verify},
        {"append", 9, run_append}, {"lease_ms", 0, run_lease_ms}, {"has", 6, run_has},
        {"tail", 0, run_tail},     {"read", 2, run_read},         {"sum", 2, run_sum},
        {"trim", 2, run_trim},     {"take", 2, run_take},         {"give", 3, run_give},
        {"look", 0, run_look},     {"meet", 8, run_meet},         {"within", 1, run_within},
};

static void run_line(char *line)
{
        char *words[WORDS_MAX] = {0}, *rest = NULL;
        struct problem p = {0};
        struct sql_wait w = patience();
        int n = 0, r = ERR_UNKNOWN;
        for (char *word = strtok_r(line, " \n", &rest); word && n < WORDS_MAX;
             word = strtok_r(NULL, " \n", &rest))
                words[n++] = word;
        for (size_t i = 0; n && i < ARRAY_LEN(calls); i++)
                if (strcmp(calls[i].name, words[0]) == 0 && calls[i].n_words == n - 1)
                        r = calls[i].run(words + 1, &w, &p);
        bool is_closed = !ledger->ops->is_open(ledger);
        if (r == OK)
                (void)printf("= OK%s\n", is_closed ? " closed" : "");
        else
                (void)printf("= %s %s%s\n", err_name(r), p.detail, is_closed ? " closed" : "");
        (void)fflush(stdout);
}

int main(int argc, char **argv)
{
        char line[LINE_BYTES];
        if (argc < 7)
                return 2;
        is_postgres = strcmp(argv[1], "postgres") == 0;
        options.durability = strcmp(argv[2], "single") == 0 ? LEDGER_SINGLE : LEDGER_REPLICATED;
        const char *mode = getenv("LEDGER_TLS");
        tls.mode = mode ? (enum sql_tls_mode)number(mode) : SQL_TLS_OFF;
        tls.ca = getenv("LEDGER_CA");
        for (int i = 6; i < argc && options.n_logins < ARRAY_LEN(logins); i++)
                logins[options.n_logins++] =
                        (struct sql_login){.server = {.host = host, .port = (int)number(argv[i])},
                                           .user = argv[3],
                                           .password = argv[4],
                                           .tls = tls,
                                           .database = argv[5]};
        ledger = (is_postgres ? ledger_postgres_new : ledger_mariadb_new)(&options);
        while (fgets(line, sizeof(line), stdin))
                run_line(line);
        ledger = ledger->ops->free(ledger);
        free(body);
        return 0;
}
