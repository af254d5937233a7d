# What the tests of a worker with a file of handlers share.

load lib_work.bash

# handlers: the file, from standard input
handlers() {
        cat >handlers.conf
}

# Everything that is ready, with the handlers.
once() {
        weir work --once --queue q --handlers handlers.conf "$@" 2>>work.log
}

# run_fails_with COMMAND... -- TEXT...: it ends with an error that holds every text
run_fails_with() {
        untraced run_fails_with_it "$@"
}

run_fails_with_it() {
        local command=() text
        while [ "$1" != -- ]; do
                command+=("$1")
                shift
        done
        shift
        run "${command[@]}"
        [ "$status" -ne 0 ]
        for text; do
                [[ $output == *"$text"* ]] || {
                        echo "'$text' is not in: $output"
                        return 1
                }
        done
}

# refused TEXT...: the file does not start a worker, and the message holds every text
refused() {
        run_fails_with weir work --once --queue q --handlers handlers.conf -- "$@"
}
