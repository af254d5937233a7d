/* Records: framing and checking of the smallest thing the log keeps.
 *
 * A record is written in place: record_begin leaves twelve bytes, the caller appends the body,
 * record_end fills the twelve in.  So an effect is encoded straight into the batch, without a
 * buffer of its own and without knowing its length beforehand.
 *
 * The sum covers the type, the version and the length as well as the body; a record is therefore
 * sound on its own, which is what lets `salvage` keep the sound records of a damaged batch.
 * Cost: 12 bytes and one pass of CRC-32C (about 15 GB/s) a record. */
#include "log/record.h"

#include "base/bytes.h"
#include "base/crc.h"

/* The sum is stored behind the bytes it covers first: length, type, version, zero. */
#define CRC_AT 8

static uint32_t record_crc(const char *record, size_t body_len)
{
        uint32_t crc = crc32c(0, record, CRC_AT);
        return crc32c(crc, record + RECORD_HEADER_BYTES, body_len);
}

size_t record_begin(struct buf *b, uint8_t type, uint8_t version)
{
        size_t begun_at = b->len;
        char header[RECORD_HEADER_BYTES] = {0};
        header[4] = (char)type;
        header[5] = (char)version;
        buf_put(b, header, sizeof(header));
        return begun_at;
}

void record_end(struct buf *b, size_t begun_at)
{
        if (b->failed)
                return; /* sticky: whoever owns the batch finds out at its end */
        ASSERT(begun_at + RECORD_HEADER_BYTES <= b->len);
        size_t body_len = b->len - begun_at - RECORD_HEADER_BYTES;
        ASSERT(body_len <= UINT32_MAX);
        char *record = b->ptr + begun_at;
        store_u32(record, (uint32_t)body_len);
        store_u32(record + CRC_AT, record_crc(record, body_len));
}

int record_next(struct slice *rest, struct record *ret)
{
        if (rest->len == 0)
                return ERR_NOTFOUND;
        if (rest->len < RECORD_HEADER_BYTES)
                return ERR_CORRUPT;
        const char *record = rest->ptr;
        size_t body_len = load_u32(record);
        if (body_len > rest->len - RECORD_HEADER_BYTES)
                return ERR_CORRUPT;
        if (load_u16(record + 6) != 0 || load_u32(record + CRC_AT) != record_crc(record, body_len))
                return ERR_CORRUPT;
        *ret = (struct record){
                .type = (uint8_t)record[4],
                .version = (uint8_t)record[5],
                .body = slice_make(record + RECORD_HEADER_BYTES, body_len),
        };
        rest->ptr += RECORD_HEADER_BYTES + body_len;
        rest->len -= RECORD_HEADER_BYTES + body_len;
        return OK;
}

bool record_count(struct slice batch, uint32_t *ret)
{
        uint32_t n = 0;
        while (batch.len > 0) {
                if (batch.len < RECORD_HEADER_BYTES)
                        return false;
                size_t len = RECORD_HEADER_BYTES + (size_t)load_u32(batch.ptr);
                if (len > batch.len)
                        return false;
                batch.ptr += len;
                batch.len -= len;
                n++;
        }
        *ret = n;
        return true;
}
