#!/bin/bash
# weir-test: skip
# The mariadb command line client: what it sees of the server at DB_HOST:DB_PORT.  See
# mysql_clients.py.
set -u
CLIENT=(mariadb --no-defaults -h "$DB_HOST" -P "$DB_PORT" -u "$DB_USER" -p"$DB_PASSWORD" -D "$DB_NAME"
        --default-character-set=utf8mb4 --batch -N)
db() { "${CLIENT[@]}" "$@"; }
line() { tr '\t\n' '|/' | sed 's,/$,,'; }
say() { printf '%s: %s\n' "$1" "$2"; }
# ERROR 1213 (40001) at line 1: text
error() { sed -nE 's/^ERROR ([0-9]+) \((\w+)\)[^:]*: .*/\1 \2/p'; }
load() { echo "LOAD DATA LOCAL INFILE '$DB_FILES/$1' INTO TABLE up"; }

# Starts a client that sleeps in the server; sets `me` to its connection and `child` to its process.
# The client reads its next statement from the pipe when the first has ended.
sleeper()
{
        rm -f "$DB_FILES/id" "$DB_FILES/out"
        "${CLIENT[@]}" --unbuffered --force >"$DB_FILES/out" 2>"$DB_FILES/err" < <(
                printf '%s\n' 'SELECT CONNECTION_ID();' 'SELECT SLEEP(600);' 'SELECT 1;'
        ) &
        child=$!
        until me=$(head -n 1 "$DB_FILES/out" 2>/dev/null) && [[ $me ]]; do :; done
        until [[ $(db -e "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = $me AND
                INFO LIKE 'SELECT SLEEP%'") == 1 ]]; do :; done
}

after_kill() { echo "$(error <"$DB_FILES/err"), then $(tail -n 1 "$DB_FILES/out")"; }

statements()
{
        say text "$(db -e "SELECT 1+1, 'héllo', NULL, ''" | line)"
        say prepared "$(db -e "PREPARE s FROM 'SELECT ? + 1, ?, ?'; SET @a = 41, @b = 'it''s', @c = NULL;
                EXECUTE s USING @a, @b, @c" | sed 's/\.0*\b//' | line)"
        say kinds "$(db -e 'SELECT * FROM kinds' | line)"
        say new_row "$(db -e "INSERT INTO notes (body) VALUES ('first');
                SELECT ROW_COUNT(), LAST_INSERT_ID()" | tr '\t' ' ')"
        say many_rows "$(db -e 'SELECT seq FROM seq_1_to_1000' | awk '{ n++; s += $1 } END { print n, s }')"
        say transaction "$(db -e 'BEGIN; INSERT INTO up VALUES (1); ROLLBACK; SELECT COUNT(*) FROM up;
                BEGIN; INSERT INTO up VALUES (1); COMMIT; SELECT COUNT(*) FROM up' | paste -sd' ')"
        say savepoint "$(db -e 'BEGIN; SAVEPOINT a; INSERT INTO up VALUES (2); ROLLBACK TO a; COMMIT;
                SELECT COUNT(*) FROM up; DELETE FROM up')"
        say statistics "$(db -e status | grep -o '^Uptime')"
        say warnings "$(db --show-warnings -e "SELECT 1 + 'x'" | line)"
}

sizes()
{
        { printf "INSERT INTO notes (body) VALUES ('"; head -c 1048576 /dev/zero | tr '\0' x; echo "');"; } |
                db --max-allowed-packet=4M
        say big "$(db --max-allowed-packet=4M -e 'SELECT body FROM notes ORDER BY id DESC LIMIT 1' | tr -d '\n' |
                { tee >(wc -c >"$DB_FILES/size") | md5sum | sed "s/ .*//" >"$DB_FILES/sum"; }
                until [[ -s $DB_FILES/size ]]; do :; done
                echo "$(cat "$DB_FILES/size") $(cat "$DB_FILES/sum")")"
}

uploads()
{
        say infile "$(db --local-infile=1 -e "$(load rows.tsv); SELECT COUNT(*), SUM(n) FROM up; DELETE FROM up" |
                tr '\t' ' ')"
        say infile_empty "$(db --local-infile=1 -e "$(load empty.tsv); SELECT COUNT(*) FROM up")"
        say infile_missing "refused, then $(printf '%s;\n' "$(load missing.tsv)" 'SELECT 1' |
                db --local-infile=1 --force 2>/dev/null)"
        say infile_off "refused, then $(printf '%s;\n' "$(load rows.tsv)" 'SELECT 1' |
                db --local-infile=0 --force 2>/dev/null)"
}

# With another delimiter the client sends all statements in one command.
several()
{
        say multi "$(printf 'DELIMITER //\nSELECT 1; SELECT 2, 3; SET @a = 4; SELECT @a//\n' | db | line)"
        say multi_error "$(printf 'DELIMITER //\nSELECT 1; SELECT * FROM nothing; SELECT 3//\n' |
                db 2>"$DB_FILES/err" | line)/$(error <"$DB_FILES/err" | cut -d' ' -f1)"
        say call "$(db -e 'CALL two()' | line)"
        say errors "$(printf '%s;\n' 'INSERT INTO counter VALUES (1, 1)' SELEKT 'SELECT * FROM nothing' |
                db --force 2>&1 >/dev/null | error | paste -sd, | sed 's/,/, /g')"
}

kills()
{
        sleeper
        db -e "KILL QUERY $me"
        wait "$child"
        say kill_query "$(after_kill)"
        sleeper
        kill -INT "$child" # Ctrl-C: the client opens a connection of its own, which sends KILL QUERY
        wait "$child"
        say cancel "$(after_kill)"
        sleeper
        db -e "KILL $me"
        wait "$child"
        say kill_connection "$(grep -qE '^ERROR 20(06|13)' "$DB_FILES/err" && echo gone || cat "$DB_FILES/err")"
}

# A transaction that is repeated until it is let through.
busy()
{
        until db -e 'BEGIN; UPDATE counter SET n = n + 1; COMMIT' 2>"$DB_FILES/err"; do
                sed -nE 's/^ERROR ([0-9]+) \((\w+)\)[^:]*: /refused: \1 \2 /p' "$DB_FILES/err"
        done
        echo "done"
}

if [[ $1 == busy ]]; then
        busy
        exit
fi
for part in statements sizes uploads several kills; do
        $part
done
