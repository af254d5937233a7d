/* See checksum.h. */
#include "history/checksum.h"

#include "base/crc.h"

static const char *const column_types[] = {[COLUMN_ID] = "INTEGER",
#define X(name, text, type) [COLUMN_##name] = type,
                                           ARCHIVE_COLUMN_MAP(X)
#undef X
};

static uint32_t add_number(uint32_t crc, uint64_t number)
{
        uint8_t bytes[8];
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(number >> (8 * i));
        return crc32c(crc, bytes, sizeof(bytes));
}

void checksum_number(struct checksum *c, int64_t number)
{
        c->row = add_number(c->row, (uint64_t)number);
}

void checksum_bytes(struct checksum *c, enum archive_column column, struct slice bytes)
{
        if (column == COLUMN_RESULT) {
                c->result = bytes.len ? crc32c(0, bytes.ptr, bytes.len) : 0;
                return;
        }
        c->row = add_number(c->row, bytes.len);
        if (bytes.len)
                c->row = crc32c(c->row, bytes.ptr, bytes.len);
}

int64_t checksum_value(const struct checksum *c)
{
        return (int64_t)((uint64_t)c->result << 32 | c->row);
}

int checksum_is_required(sqlite3 *db, bool *ret)
{
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v2(
                db, "SELECT \"notnull\" FROM pragma_table_info('job') WHERE name = 'checksum'", -1,
                &stmt, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        *ret = rc == SQLITE_ROW && sqlite3_column_int(stmt, 0);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* A value of another type than the column's is damage that SQLite would convert away. */
static bool is_of_type(sqlite3_stmt *row, enum archive_column column)
{
        int type = sqlite3_column_type(row, (int)column);
        if (column_types[column][0] == 'I')
                return type == SQLITE_INTEGER;
        return type == SQLITE_TEXT || type == SQLITE_BLOB || type == SQLITE_NULL;
}

enum checksum_verdict checksum_check(sqlite3_stmt *row, bool is_required)
{
        struct checksum c = {0};
        bool has_column = sqlite3_column_count(row) > COLUMN_CHECKSUM; /* else an older version */
        if (!has_column || sqlite3_column_type(row, COLUMN_CHECKSUM) == SQLITE_NULL)
                return is_required ? CHECKSUM_BAD : CHECKSUM_NONE;
        for (int i = COLUMN_ID; i < COLUMN_CHECKSUM; i++) {
                enum archive_column column = (enum archive_column)i;
                if (!is_of_type(row, column))
                        return CHECKSUM_BAD;
                if (column_types[i][0] == 'I') {
                        checksum_number(&c, sqlite3_column_int64(row, i));
                        continue;
                }
                const void *bytes = sqlite3_column_blob(row, i);
                checksum_bytes(&c, column, slice_make(bytes, (size_t)sqlite3_column_bytes(row, i)));
        }
        return sqlite3_column_int64(row, COLUMN_CHECKSUM) == checksum_value(&c) ? CHECKSUM_GOOD
                                                                                : CHECKSUM_BAD;
}
