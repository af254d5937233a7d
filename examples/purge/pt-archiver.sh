#!/bin/sh
# Purges a table with pt-archiver, a second at a time, and asks weir before each second.
#
#   pt-archiver.sh IDENTITY SOURCE WHERE [OPTION...]
#   pt-archiver.sh nightly:purge 'h=db1,D=shop,t=events' 'at < NOW() - INTERVAL 1 YEAR'
#
# WEIR_URL says where weir listens, WEIR which program to ask with (weir); the options are
# pt-archiver's.  While the replica is behind, `weir check` does not come back, and nothing is
# deleted.  When weir is away the purge waits for it: --fail open would let it go on.
set -eu

identity=$1 source=$2 where=$3
shift 3
while :; do
        "${WEIR:-weir}" check "$identity" --wait forever --quiet
        why=$(pt-archiver --source "$source" --where "$where" --purge --bulk-delete --limit 500 \
                --commit-each --run-time 1s --why-quit --no-check-charset "$@")
        case $why in
        "" | *"no more rows"*) exit 0 ;; # it says nothing when there was none at all
        *"time exceeded"*) ;;
        *)
                echo "pt-archiver: $why" >&2
                exit 1
                ;;
        esac
done
