#!/usr/bin/env bats
# weir-test: bin=release
# What a worker does not trust: values that a job's author chose, files that others can change.

load lib_handlers.bash

# exec_of WORD...: a file with one handler whose command is these words
exec_of() {
        local word list=
        for word; do
                list+="${list:+, }\"$word\""
        done
        printf 'handler "*" {\n exec = {%s}\n %s\n}\n' "$list" "${SETTING-}" >handlers.conf
}

@test "a value at the start of an argument could be an option, and is refused at the start" {
        local word
        add a --attempts 1
        for word in '{hook}' '{group}' '{queue}' '{hook}.txt' '-{hook}' '--{group}=1' '{id}' ; do
                exec_of echo x "$word"
                if [ "$word" = '{id}' ]; then
                        once
                        continue
                fi
                refused "handlers.conf:4: exec: '$word' begins with a value that the job's author chooses" \
                        "unsafe_placeholders = true" "WEIR_"
                has_status 1 pending
        done
        has_status 1 complete
        for word in 'a{hook}' '--hook={hook}' 'x-{group}' '{id}-{hook}' '${hook}' '{attempt}'; do
                exec_of echo "$word"
                once
        done
}

@test "a value inside a script for a shell is refused at the start" {
        local words
        add a
        while IFS='|' read -r -a words; do
                exec_of "${words[@]}"
                refused "handlers.conf:4: exec: '${words[-1]}' puts a value that the job's author chooses into code" \
                        "unsafe_placeholders = true" "WEIR_"
        done <<'END'
sh|-c|echo a {hook}
/bin/sh|-ec|echo 'a {group}'
bash|--norc|-c|x={queue}
env|A=1|dash|-c|echo {hook}
timeout|5|zsh|-lc|echo {hook}
sudo|-u|www|sh|-c|echo {hook}
busybox|sh|-c|echo {hook}
su|www|-c|echo {hook}
python3|-c|print('{hook}')
python3.11|-c|print('{hook}')
perl|-we|print '{hook}'
ruby|-e|puts '{hook}'
node|--eval|f('{hook}')
node|--eval=f('{hook}')
php|-r|f('{hook}');
mysql|-e|select '{group}'
psql|-c|select '{group}'
ssh|host|run {hook}
END
        has_status 1 pending
        # A number is no code, and neither is what a script gets as an argument.
        exec_of sh -c 'echo {id} $1' x 'on-{hook}'
        once
        [ "$(field 1 result)" = '1 on-a' ]
}

@test "a value that alone names the program is refused at the start" {
        add sh 'touch owned' --attempts 1
        exec_of '{hook}'
        refused "handlers.conf:4: exec: '{hook}' lets a job choose any program of PATH"
        run_fails_with weir work --once --queue q --exec '{hook}' -- \
                "--exec: '{hook}' lets a job choose any program of PATH" "--unsafe-placeholders"
        [ ! -e owned ]
}

@test "unsafe_placeholders accepts them, and false does not" {
        add a
        SETTING='unsafe_placeholders = true' exec_of echo '{hook}'
        once
        [ "$(field 1 result)" = a ]
        SETTING='unsafe_placeholders = false' exec_of echo '{hook}'
        refused "begins with a value that the job's author chooses"
        SETTING='unsafe_placeholders = perhaps' exec_of echo x
        refused "unsafe_placeholders: true or false, not 'perhaps'"
        # The order in the file does not matter.
        printf 'handler "*" { unsafe_placeholders = true exec = {"echo", "{hook}"} }\n' >handlers.conf
        add b
        once
        [ "$(field 2 result)" = b ]
        printf 'handler "*" { http = "http://a/" unsafe_placeholders = true }\n' >handlers.conf
        refused "unsafe_placeholders is only for exec handlers"
}

@test "--exec refuses such values too, unless --unsafe-placeholders is given" {
        add a
        run_fails_with weir work --once --queue q --exec 'echo {hook}' -- \
                "--exec: '{hook}' begins with a value that the job's author chooses" \
                "--unsafe-placeholders"
        run_fails_with weir work --once --queue q --exec "sh -c 'echo {hook}'" -- \
                "--exec: 'echo {hook}' puts a value that the job's author chooses into code"
        has_status 1 pending
        weir work --once --queue q --exec 'echo {hook}' --unsafe-placeholders
        [ "$(field 1 result)" = a ]
}

@test "a handlers file or configuration that others can write to is refused" {
        local mode
        exec_of true
        for mode in 666 646 602; do
                chmod "$mode" handlers.conf
                refused "handlers.conf can be changed by other users: chmod go-w"
        done
        chgrp 12345 handlers.conf
        chmod 660 handlers.conf
        refused "handlers.conf can be changed by other users: chmod go-w"
        chmod 640 handlers.conf
        once
        printf 'resp = "127.0.0.1:0"\n' >some.conf
        chmod 666 some.conf
        run_fails_with weir serve -t -c some.conf -- "some.conf can be changed by other users: chmod go-w"
        chmod 644 some.conf
        weir serve -t -c some.conf
}

@test "the health file follows no link that another user has put in its way" {
        exec_of true
        echo precious >victim
        bash -c 'ln -s victim "health.$$"; exec "$@"' x "$WEIR_BIN" work --once --queue q \
                --health-file health --handlers handlers.conf 2>>work.log
        [ "$(cat victim)" = precious ]
        # The name itself may be a link too; it is replaced.
        ln -sf victim health
        weir work --once --queue q --health-file health --handlers handlers.conf 2>>work.log
        [ "$(cat victim)" = precious ]
}
