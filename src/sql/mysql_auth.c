/* Keeps our password from a false MySQL server and from an eavesdropper, and keeps any server from
 * sending more than was asked for.
 *
 * libmariadb (3.3) does as the server says: it sends the password as it is when asked by
 * mysql_clear_password, asks the terminal when asked by dialog, and takes a connection for
 * encrypted because encryption was wanted.  So:
 *
 * 1. Only three ways to log in are allowed, each a proof that does not tell the password but to who
 *    tries them all: mysql_native_password, client_ed25519, caching_sha2_password.
 * 2. The third one may go on to ask for the whole password.  It is our own here, in place of the
 *    library's, and gives that only over TLS or a Unix socket.  It never takes a public key from
 *    the server: an impostor would hold the other half of it.
 * 3. The library reports everything it has read to a callback.  That is how the greeting is
 *    seen before the library can answer it: where TLS is required and not offered, the connection
 *    is cut there.  A first packet that is no greeting is cut as well and never reaches the
 *    library, which some would crash.  What is read after that is counted, and cut when it is too
 * much or too late; the library reads on as long as there is something to read, and stores all of
 * it. */
#include "sql/mysql_connect.h"

#include <errmsg.h>
#include <mysql.h>
#include <mysql/plugin_auth.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/banned.h" /* late: see the Makefile */
#include "base/clock.h"
#include "base/openssl.h"

#define ALLOWED     "mysql_native_password,client_ed25519,caching_sha2_password"
#define NONCE_LEN   20
#define FAST_ENOUGH 3 /* what the server says to a proof */
#define WANTS_ALL   4

/* From client_plugin.h, which Debian packages without a header that it includes itself. */
struct auth_plugin {
        struct st_mysql_client_plugin head;
        int (*authenticate_user)(MYSQL_PLUGIN_VIO *vio, MYSQL *db);
};
#define AUTH_PLUGIN         2
#define AUTH_PLUGIN_VERSION 0x0100
/* Exported for tools that trace: is_write, whose, what, how much (-1: it failed). */
extern int ma_pvio_register_callback(my_bool is_new, void (*fn)(int is_write, MYSQL *db,
                                                                unsigned char *bytes, size_t n));

/* ---- caching_sha2_password ---- */

/* SHA256(password) XOR SHA256(SHA256(SHA256(password)) nonce) */
static bool make_proof(const char *password, const unsigned char *nonce,
                       unsigned char ret[SHA256_DIGEST_LENGTH])
{
        unsigned char text[SHA256_DIGEST_LENGTH + NONCE_LEN], mask[SHA256_DIGEST_LENGTH];
        unsigned len;
        bool is_made = EVP_Digest(password, strlen(password), ret, &len, EVP_sha256(), NULL) &&
                       EVP_Digest(ret, SHA256_DIGEST_LENGTH, text, &len, EVP_sha256(), NULL);
        memcpy(text + SHA256_DIGEST_LENGTH, nonce, NONCE_LEN);
        is_made = is_made && EVP_Digest(text, sizeof(text), mask, &len, EVP_sha256(), NULL);
        for (size_t i = 0; is_made && i < SHA256_DIGEST_LENGTH; i++)
                ret[i] ^= mask[i];
        return is_made;
}

/* Whether no one can eavesdrop.  The library's own answer would be whether TLS was asked for. */
static bool is_private(MYSQL_PLUGIN_VIO *vio, MYSQL *db)
{
        MYSQL_PLUGIN_VIO_INFO info;
        vio->info(vio, &info);
        return info.protocol == MYSQL_VIO_SOCKET || mysql_get_ssl_cipher(db) != NULL;
}

static int give_all(MYSQL_PLUGIN_VIO *vio, MYSQL *db)
{
        if (!is_private(vio, db)) {
                db->methods->set_error(db, CR_AUTH_PLUGIN_ERR, "HY000",
                                       "the server asks for the whole password, and that is not "
                                       "given without TLS");
                return CR_ERROR;
        }
        return vio->write_packet(vio, (const unsigned char *)db->passwd,
                                 (int)strlen(db->passwd) + 1)
                       ? CR_ERROR
                       : CR_OK;
}

static int log_in(MYSQL_PLUGIN_VIO *vio, MYSQL *db)
{
        unsigned char *packet, proof[SHA256_DIGEST_LENGTH];
        int len = vio->read_packet(vio, &packet);
        if (len < 0)
                return CR_ERROR;
        if (len != NONCE_LEN + 1) /* it ends with a zero */
                return CR_SERVER_HANDSHAKE_ERR;
        if (!db->passwd || !*db->passwd)
                return vio->write_packet(vio, NULL, 0) ? CR_ERROR : CR_OK;
        if (!make_proof(db->passwd, packet, proof) ||
            vio->write_packet(vio, proof, sizeof(proof)) != 0)
                return CR_ERROR;
        len = vio->read_packet(vio, &packet);
        if (len == 1 && *packet == FAST_ENOUGH)
                return CR_OK;
        return len == 1 && *packet == WANTS_ALL ? give_all(vio, db) : CR_ERROR;
}

static struct auth_plugin sha2 = {
        .head = {.type = AUTH_PLUGIN,
                 .interface_version = AUTH_PLUGIN_VERSION,
                 .name = "caching_sha2_password",
                 .author = "weir",
                 .desc = "gives the whole password only where nobody listens",
                 .license = ""},
        .authenticate_user = log_in,
};

void my_auth_restrict(MYSQL *db)
{
        (void)mysql_options(db, MARIADB_OPT_RESTRICTED_AUTH,
                            ALLOWED); /* fails for want of memory */
}

/* ---- what comes in ---- */

#define GREETING_MAX 1024
#define HEAD_LEN     4  /* length in three bytes, number */
#define GREETING     10 /* the first byte of the packet, and of one that is an error */
#define ERROR        0xff
#define TLS_BIT      0x800

/* What this thread waits for now. */
static _Thread_local struct watch {
        bool is_on;
        int64_t left; /* bytes */
        int64_t deadline_ns;
        bool is_greeted, needs_tls;
        unsigned char greeting[GREETING_MAX];
        size_t len;
        int verdict;
} watch;

static void cut(MYSQL *db, int verdict)
{
        watch.verdict = verdict;
        (void)shutdown((int)mysql_get_socket(db), SHUT_RDWR); /* fine when it is lost */
}

/* -1: more of it must come.  A first packet that is an error is left to the library, unless it only
 * looks like one and reports some progress.  That is told as soon as its number is there: what came
 * before is in the library's hands. */
static int judge_greeting(const unsigned char *at, size_t len)
{
        if (len < HEAD_LEN)
                return -1;
        size_t size = at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16;
        if (size < 3 || size > GREETING_MAX - HEAD_LEN)
                return ERR_BADARG;
        at += HEAD_LEN;
        len -= HEAD_LEN;
        if (len >= 1 && at[0] != GREETING && at[0] != ERROR)
                return ERR_BADARG;
        if (len >= 3 && at[0] == ERROR)
                return at[1] == 0xff && at[2] == 0xff ? ERR_BADARG : OK;
        if (len < size)
                return -1;
        const unsigned char *zero = memchr(at, 0, size); /* of the version */
        size_t bits = zero ? (size_t)(zero - at) + 1 + 4 + 8 + 1 : 0;
        if (!zero || bits + 2 > size)
                return ERR_BADARG;
        bool has_tls = (at[bits] | at[bits + 1] << 8) & TLS_BIT;
        return has_tls || !watch.needs_tls ? OK : ERR_STATE;
}

/* The bytes are those that the library is about to look at.  Nulls are a packet it can refuse. */
static void see_greeting(MYSQL *db, unsigned char *bytes, size_t n)
{
        size_t room = sizeof(watch.greeting) - watch.len, take = n < room ? n : room;
        memcpy(watch.greeting + watch.len, bytes, take);
        watch.len += take;
        int r = judge_greeting(watch.greeting, watch.len);
        if (r == -1)
                return;
        watch.is_greeted = true;
        if (r == OK)
                return;
        memset(bytes, 0, n);
        cut(db, r);
}

static void on_io(int is_write, MYSQL *db, unsigned char *bytes, size_t n)
{
        if (is_write || !watch.is_on || watch.verdict != OK || (ssize_t)n <= 0)
                return;
        watch.left -= (int64_t)n;
        if (watch.left < 0)
                cut(db, ERR_TOOBIG);
        else if (clock_boot_ns() >= watch.deadline_ns)
                cut(db, ERR_TIMEOUT);
        else if (!watch.is_greeted)
                see_greeting(db, bytes, n);
}

void my_watch_begin(const struct sql_wait *w, bool is_greeted, bool needs_tls)
{
        watch.is_on = true;
        watch.left = ANSWER_MAX;
        watch.deadline_ns = w->deadline_ns;
        watch.is_greeted = is_greeted;
        watch.needs_tls = needs_tls;
        watch.len = 0;
        watch.verdict = OK;
}

void my_watch_allow(uint64_t bytes)
{
        watch.left = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
}

int my_watch_end(void)
{
        watch.is_on = false;
        return watch.verdict;
}

/* ---- setup ---- */

static void set_up(void)
{
        MYSQL *db;
        (void)mysql_library_init(0, NULL, NULL); /* fails only for want of memory, seen at once */
        db = mysql_init(NULL);
        ASSERT(db);
        /* Before the library finds one of that name in its folder. */
        ASSERT(mysql_client_register_plugin(db, &sha2.head) == &sha2.head);
        ASSERT(ma_pvio_register_callback(1, on_io) == 0);
        mysql_close(db);
}

void my_setup(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        (void)pthread_once(&once, set_up); /* fails for a bad argument only */
}
