/* Signed jobs: HMAC-SHA256 over the fields that decide what runs, so that whoever can reach the
 * queue but has no key cannot make a worker run anything.
 *
 * What is signed, for a client in any language (every line ends in one \n, and a field is counted
 * in bytes):
 *
 *      weir-sign-1
 *      <length>:<hook>
 *      <length>:<args>               the bytes of the job's args, exactly as enqueued
 *      <length>:<queue>
 *      <length>:<group>              empty when there is none
 *      <length>:<priority>           numbers as decimal text, no sign, no leading zeros
 *      <length>:<attempts>
 *      <length>:<timeout_ms>
 *      <length>:<single>             the single-instance name, empty when there is none
 *
 * e.g. "weir-sign-1\n4:mail\n8:{"to":1}\n7:default\n0:\n2:10\n1:5\n5:60000\n0:\n".  Lengths in
 * front make two different jobs have different bytes whatever their fields contain.  The numbers
 * are those the job has in the end, so a client that signs gives them and does not leave them to
 * defaults.  The signature travels as
 *
 *      <key id>:<64 hex digits, lower case when made, either case when checked>
 *
 * Keys come from text, one per line, `#` starts a comment line:
 *
 *      <id> <secret>
 *
 * id: 1 to 32 of A-Z a-z 0-9 . _ -     secret: 16 to 128 bytes, as hex or padded base64; text of
 * an even number of hex digits only is hex, and `hex:` or `base64:` in front settles it.  The first
 * key signs; all of them check, so a new key is put in front and the old one removed when its last
 * job has run.
 *
 * Threads: loading is the owner's; afterwards the keys are read only, and any thread may make and
 * check. */
#ifndef WEIR_WIRE_SIGN_H
#define WEIR_WIRE_SIGN_H

#include "base/buf.h"
#include "base/err.h"

#define SIGN_KEYS_MAX   16
#define SIGN_ID_MAX     32
#define SIGN_SECRET_MIN 16
#define SIGN_SECRET_MAX 128
#define SIGN_HASH_BYTES 32
#define SIGN_TEXT_MAX   (SIGN_ID_MAX + 1 + 2 * SIGN_HASH_BYTES + 1) /* with the NUL */

struct sign_key {
        char id[SIGN_ID_MAX + 1];
        void *mac; /* a prepared EVP_MAC_CTX, copied for each use; the secret is only in there */
};

struct sign_keys {
        size_t len; /* 0: nothing is signed and nothing needs to be */
        struct sign_key keys[SIGN_KEYS_MAX];
};

struct sign_fields {
        struct slice hook, args, queue, group, single;
        uint64_t priority, attempts, timeout_ms;
};

void sign_keys_init(struct sign_keys *k);    /* none */
void sign_keys_release(struct sign_keys *k); /* wipes the secrets */
/* Replaces all keys by those of the text; on an error k keeps what it had, and the problem names
 * the line, never the secret. */
int sign_keys_load(struct sign_keys *k, struct slice text, struct problem *problem) MUST_CHECK;

/* The bytes that are signed. */
void sign_put_canonical(struct buf *b, const struct sign_fields *f);
/* Signs with the key of that id, or the first when id is empty: a C string in ret.  ERR_NOTFOUND
 * when there is no such key. */
int sign_make(const struct sign_keys *k, struct slice id, const struct sign_fields *f,
              char ret[SIGN_TEXT_MAX], struct problem *problem) MUST_CHECK;
/* OK, or ERR_FORBIDDEN and why: no signature, none of this form, an unknown key, a wrong one. */
int sign_check(const struct sign_keys *k, const struct sign_fields *f, struct slice signature,
               struct problem *problem) MUST_CHECK;

#endif
