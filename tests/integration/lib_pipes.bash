# A server, and two pipes in its folder by which a command in the background says something (`said`)
# and is told to go on (`go`).

load lib.bash

start_with_pipes() {
        start_weir
        cd "$DATA" || return 1
        mkfifo go said
        # Both ends stay open here, so that neither side ever waits for the other to open.
        exec 8<>go 9<>said
}

stop_with_pipes() {
        exec 8>&- 9>&-
        stop_weir
}

# hear: the next line a command wrote to `said`
hear() {
        IFS= read -r -t 120 REPLY <&9
}
