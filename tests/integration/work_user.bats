#!/usr/bin/env bats
# weir-test: bin=release
# Commands of a worker that runs as root, under another user.  Without root there is only the
# refusal to see, and the tests that need root pass over what they cannot do.

load lib_handlers.bash

# untouched: job 1 was never begun
untouched() {
        has_status 1 pending
        [ "$(field 1 attempt)" = 0 ]
        [ ! -e ran ]
}

is_root() {
        [ "$(id -u)" -eq 0 ]
}

@test "a command runs as the user of its handler, with its groups and nothing of root" {
        is_root || skip "only root can become another"
        handlers <<'EOF'
                handler "*" {
                  exec = {"sh", "-c", "id -un; id -gn; id -G; grep -E '^(Uid|Gid|CapEff|CapPrm):' /proc/self/status | tr '\\t' ' '"}
                  user = nobody
                  dir = "/"
                }
EOF
        add who
        # A worker with groups of its own, which the command must not have.
        setpriv --groups=0,1,2 "$WEIR_BIN" work --once --queue q --handlers handlers.conf
        local uid gid
        uid=$(id -u nobody) gid=$(id -g nobody)
        [ "$(field 1 result)" = "nobody
$(id -gn nobody)
$(id -G nobody)
Uid: $uid $uid $uid $uid
Gid: $gid $gid $gid $gid
CapPrm: 0000000000000000
CapEff: 0000000000000000" ]
}

@test "HOME, USER and LOGNAME are the user's, unless env says otherwise" {
        is_root || skip "only root can become another"
        handlers <<'EOF'
                handler "a" { exec = {"sh", "-c", "echo $HOME $USER $LOGNAME"} user = nobody dir = "/" }
                handler "b" {
                  exec = {"sh", "-c", "echo $HOME $USER $LOGNAME"}
                  user = nobody
                  env = {"HOME=/var/empty"}
                  dir = "/"
                }
EOF
        add a
        add b
        once
        [ "$(field 1 result)" = "$(getent passwd nobody | cut -d: -f6) nobody nobody" ]
        [ "$(field 2 result)" = "/var/empty nobody nobody" ]
}

@test "a group takes the place of the user's own, and a umask that of the worker's" {
        is_root || skip "only root can become another"
        handlers <<'EOF'
                handler "*" {
                  exec = {"sh", "-c", "id -un; id -gn; umask"}
                  user = nobody
                  group = daemon
                  umask = 027
                  dir = "/"
                }
EOF
        add who
        once
        [ "$(field 1 result)" = $'nobody\ndaemon\n0027' ]
}

@test "a umask needs no other user" {
        handlers <<'EOF'
                handler "*" { exec = {"sh", "-c", "umask"} umask = 77 }
EOF
        add a
        once
        [ "$(field 1 result)" = 0077 ]
}

@test "/dev/stdin, /dev/stdout and /dev/stderr can be opened by the user" {
        is_root || skip "only root can become another"
        handlers <<'EOF'
                handler "*" {
                  exec = {"sh", "-c", "cat </dev/stdin >/dev/stdout; echo told >/dev/stderr; exit 3"}
                  user = nobody
                  dir = "/"
                  retry_in = 1h
                }
EOF
        add a words
        once
        [ "$(field 1 error)" = "exit 3: told" ]
}

@test "a command of another user ends with its worker, also when that is killed" {
        is_root || skip "only root can become another"
        handlers <<'EOF'
                handler "*" {
                  exec = {"python3", "-c", "import os, signal
os.write(2, b'pid=%d up\\n' % os.getpid())
signal.pause()"}
                  user = nobody
                  dir = "/"
                }
EOF
        add a
        start_worker --queue q --handlers handlers.conf --stderr
        is_up() { grep -q '^pid=[0-9]* up$' work.log; }
        eventually is_up
        local pid
        pid=$(sed -n 's/^pid=\([0-9]*\) up$/\1/p' work.log)
        [ "$(stat -c %U "/proc/$pid")" = nobody ]
        kill -KILL "$WORKER"
        is_gone() { ! kill -0 "$pid" 2>/dev/null; }
        eventually is_gone
        wait "$WORKER" || true
        WORKER=
}

@test "a command of another user ends by its timeout" {
        is_root || skip "only root can become another"
        handlers <<'EOF'
                handler "*" {
                  exec = {"sh", "-c", "exec tail -f /dev/null"}
                  user = nobody
                  dir = "/"
                  timeout = 100ms
                  retry_in = 1h
                }
EOF
        add a
        once
        [[ $(field 1 error) == "killed after 100 ms"* ]]
}

@test "what the user cannot reach is told at the start, and nothing is run" {
        is_root || skip "only root can become another"
        add a
        mkdir -m 700 closed
        printf '#!/bin/sh\necho ran >%s/ran\n' "$DATA" >closed/program
        chmod 755 closed/program
        echo "handler \"*\" { exec = {\"true\"} user = nobody dir = \"$DATA/closed\" }" >handlers.conf
        refused 'handler "*" in handlers.conf: user nobody cannot enter the folder'
        echo "handler \"*\" { exec = {\"$DATA/closed/program\"} user = nobody dir = \"/\" }" >handlers.conf
        refused 'handlers.conf: there is no program' 'that user nobody can see'
        cp closed/program /tmp/"weir-$$"
        chmod 700 /tmp/"weir-$$"
        echo "handler \"*\" { exec = {\"/tmp/weir-$$\"} user = nobody dir = \"/\" }" >handlers.conf
        refused 'is no program that user nobody may run' 'chmod +x'
        rm /tmp/"weir-$$"
        untouched
}

@test "a program that only root can reach does not hide the one behind it in PATH" {
        is_root || skip "only root can become another"
        mkdir -m 700 closed
        printf '#!/bin/sh\necho of root\n' >closed/echo
        chmod 755 closed/echo
        handlers <<EOF
                handler "mine" { exec = {"echo", "any"} env = {"PATH=$DATA/closed:/usr/bin:/bin"} }
                handler "theirs" {
                  exec = {"echo", "any"}
                  env = {"PATH=$DATA/closed:/usr/bin:/bin"}
                  user = nobody
                  dir = "/"
                }
EOF
        add mine
        add theirs
        once
        [ "$(field 1 result)" = "of root" ]
        [ "$(field 2 result)" = any ]
}

@test "an unknown user or group, and a wrong umask, are refused with what is allowed" {
        add a
        echo 'handler "*" { exec = {"touch", "ran"} umask = 8 }' >handlers.conf
        refused 'handlers.conf:1: umask: octal digits from 000 to 777' "'8'"
        echo 'handler "*" { exec = {"touch", "ran"} umask = 1777 }' >handlers.conf
        refused 'umask: octal digits'
        echo 'handler "*" { exec = {"touch", "ran"} group = daemon }' >handlers.conf
        refused 'handlers.conf:1: group goes with user'
        echo 'handler "*" { http = "http://a.example/" user = nobody }' >handlers.conf
        if is_root; then
                refused 'user is only for exec handlers'
                echo 'handler "*" { exec = {"touch", "ran"} user = no-such-user }' >handlers.conf
                refused "handlers.conf:1: user: 'no-such-user' is no user of this machine" 'getent passwd'
                echo 'handler "*" { exec = {"touch", "ran"} user = "" }' >handlers.conf
                refused "'' is no user"
                echo 'handler "*" { exec = {"touch", "ran"} user = nobody group = no-such-group }' >handlers.conf
                refused "group: 'no-such-group' is no group of this machine" 'getent group'
        fi
        untouched
}

@test "only a worker of root may name a user" {
        add a
        echo 'handler "*" { exec = {"touch", "ran"} user = nobody }' >handlers.conf
        as_nobody() { weir work --once --queue q --handlers handlers.conf; }
        if is_root; then
                # A copy that nobody can reach.
                local folder
                folder=$(mktemp -d)
                cp "$WEIR_BIN" handlers.conf "$folder"
                chmod -R a+rX "$folder"
                as_nobody() {
                        (cd "$folder" && setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups \
                                ./weir work --once --queue q --handlers handlers.conf --url "$WEIR_URL")
                }
        fi
        run_fails_with as_nobody -- 'handlers.conf:1: user: only a worker that runs as root' 'start it as root'
        untouched
        [ -z "${folder:-}" ] || rm -r "$folder"
}

@test "a root without the right to change users is told so at the start" {
        is_root || skip "only root can become another"
        add a
        echo 'handler "*" { exec = {"touch", "ran"} user = nobody dir = "/" }' >handlers.conf
        without() { setpriv --bounding-set -setuid --inh-caps -setuid "$WEIR_BIN" work --once --queue q --handlers handlers.conf; }
        run_fails_with without -- 'handlers.conf: ' "may not run commands as user 'nobody'" CAP_SETUID
        untouched
}
