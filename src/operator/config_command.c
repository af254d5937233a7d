/* Commands about the configuration, which serve/ reads and writes: the core only passes on what is
 * asked, and tells what came of it. */
#include "api/exec.h"
#include "api/replies.h"
#include "operator/settings.h"

int exec_settingstext(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        struct buf text;
        if (!core->config.settings)
                return problem_set(problem, ERR_UNAVAIL, "nobody writes a configuration here");
        buf_init(&text, 0);
        core->config.settings(core->config.ctx, &text);
        reply_settings_text(reply, &(struct settings_text_reply){buf_slice(&text)});
        buf_release(&text);
        return OK;
}

/* ---- the configuration ---- */

void core_set_config(struct core *core, const struct core_config *config)
{
        core->config = *config;
}

static void tell_lines(struct reply *reply, const struct reply_items *items)
{
        struct slice text = buf_slice(items->of);
        while (text.len) {
                const char *end = memchr(text.ptr, '\n', text.len);
                size_t len = (size_t)(end - text.ptr);
                reply_text(reply, slice_make(text.ptr, len));
                text = slice_make(end + 1, text.len - len - 1);
        }
}

static struct reply_items lines_of(const struct core *core, const struct buf *text)
{
        size_t n = 0;
        for (size_t i = 0; i < text->len; i++)
                n += text->ptr[i] == '\n';
        return (struct reply_items){n, tell_lines, core, text};
}

int exec_configreload(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may steer */
        struct buf changed, restart;
        if (!core->config.reload)
                return problem_set(problem, ERR_UNAVAIL, "there is no configuration to read");
        buf_init(&changed, 0);
        buf_init(&restart, 0);
        int r = core->config.reload(core->config.ctx, cmd->arg[0].num != 0, &changed, &restart,
                                    problem);
        if (r == OK) {
                const struct config_reloaded_reply told = {
                        .changed = lines_of(core, &changed),
                        .needs_restart = lines_of(core, &restart),
                };
                reply_config_reloaded(reply, &told);
        }
        buf_release(&changed);
        buf_release(&restart);
        return r;
}

int exec_configshow(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may look */
        struct buf text, command_line;
        if (!core->config.show)
                return problem_set(problem, ERR_UNAVAIL, "there is no configuration to show");
        buf_init(&text, 0);
        buf_init(&command_line, 0);
        struct core_config_text shown = {.text = &text, .path = "", .command_line = &command_line};
        core->config.show(core->config.ctx, cmd->arg[0].num != 0, &shown);
        const struct config_reply told = {
                .text = buf_slice(&text),
                .path = shown.path,
                .loaded_ms = shown.loaded_ms,
                .command_line = lines_of(core, &command_line),
        };
        reply_config(reply, &told);
        buf_release(&text);
        buf_release(&command_line);
        return OK;
}
