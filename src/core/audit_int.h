/* What the files of the audit trail share. */
#ifndef WEIR_CORE_AUDIT_INT_H
#define WEIR_CORE_AUDIT_INT_H

#include "core/audit.h"
#include "core/kernel.h"
#include "state/audit.h"

/* audit.c: an entry that is not complete yet; 0: it could not be kept. */
uint64_t audit_open(struct core *core, const struct audit_entry *e);
/* It is complete now.  NULL: as it is. */
void audit_close(struct core *core, uint64_t number, const struct slice *before,
                 const struct slice *after);
void audit_forget(struct core *core, uint64_t number); /* nothing happened */
/* At most max bytes of it, with dots when it was cut, in `room`. */
struct slice audit_cut(struct slice s, size_t max, struct buf *room);

/* audit_state.c: what a command changes, as another command shows it. */
struct audit_noun;
const struct audit_noun *audit_noun_of(const struct command_def *def); /* NULL: none fits */
bool audit_is_answer(const struct audit_noun *n); /* the command's own answer says it */
/* The command that shows what another one changes. */
struct audit_show {
        const struct audit_noun *noun;
        struct command command;
        struct buf name; /* what it borrows: the first argument of the other */
};
void audit_show_init(struct audit_show *show, const struct audit_noun *n,
                     const struct command *cmd);
void audit_show_release(struct audit_show *show);
/* What is there now, as JSON; empty when there is nothing. */
void audit_look(struct core *core, const struct audit_show *show, struct buf *ret);
/* Of two looks, the fields that differ. */
void audit_diff(const struct audit_show *show, struct slice was, struct slice is,
                struct buf *ret_before, struct buf *ret_after);
/* The answer on a tape (answer_tape.h). */
void audit_put_answer(struct slice tape, struct buf *ret);

#endif
