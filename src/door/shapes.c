/* The shapes of answers.
 *
 * One row per command, in the order of the command table, each written down from what the program
 * says: tests/integration/schemas.py asks the real thing for every answer and holds it against
 * these rows, so a key that is added, renamed or left out fails there.  The rows could have stood
 * in the command table itself, but the core does not know JSON: there LOCK answers null when it is
 * refused, here an object.
 *
 * The reader below goes over the text once and writes the schema as it goes; it looks ahead only to
 * learn whether a '|' or a '?' follows.  Shapes are constants, so a mistake in one is found by the
 * first who reads it: the unit test reads them all. */
#include "door/shapes.h"

#include <string.h>

#include "wire/json.h"

#define TIER   "<critical,high,normal,deferrable>"
#define LEVEL  "<normal,elevated,critical,unknown>"
#define MODE   "<off,test_observe,observe,enforce>"
#define STATUS "<pending,in-progress,complete,failed,canceled>"
#define REASON "<granted,off,exempt,paused,low_priority,hold,ratio,level,unknown,threshold>"
#define ARGS   "args~:j args_is_text~:b args_base64~:s "

/* Keys that stand both in a listing and in what shows one of its rows. */
#define QUEUE_KEYS                                                                                 \
        "name:s paused:b ready:i scheduled:i waiting:i running:i enqueued:i completed:i "          \
        "failed:i canceled:i oldest_due_ms:i"
#define BATCH_KEYS                                                                                 \
        "name:s title:s status:<open,closed,canceling,finished> total:i left:i complete:i "        \
        "failed:i "                                                                                \
        "canceled:i created_ms:i finished_ms:i"
#define CLIENT_KEYS                                                                                \
        "name:s kind:<identity,part> asks:i granted:i refused:i observed:i share_refused:s "       \
        "last_ms:i address:s waiting_ms:i starved:b"
#define TARGET_KEYS                                                                                \
        "name:s mode:" MODE " level:" LEVEL " since_ms:i metric:s value:s? threshold:s? "          \
        "now:s? age_ms:i falls_in_ms:i error:s measured:b last_known:s"
#define SERIES_JOBS "started:[i?] completed:[i?] failed:[i?] enqueued:[i?] parked:[i?] ready:[i?] "
#define BULK        "{matched:i changed:i}"

/* clang-format off */
const struct shape named_shapes[] = {
        {"ok", "{ok:b}"},
        {"status", "{status:" STATUS "}"},
        {"options",
         "{unique~:s key~:s limit~:s target~:s batch~:s signature~:s schedule~:s maxrun~:i "
         "uniquefor~:i "
         "keymax~:i expires_ms~:i resultfor~:i slot_ms~:i deferred_ms~:i run~:i tier~:" TIER " "
         "backoff~:s scope~:<pending,running,after> after~:[i] when~:<complete,failed,ended> "
         "otherwise~:<cancel,fail>}"},
        {"job",
         "{id:i hook:s " ARGS "queue:s group:s status:" STATUS " priority:i attempt:i attempts:i "
         "timeout:i created_ms:i due_ms:i started_ms:i finished_ms:i worker:s fence:i "
         "lease_until_ms:i progress:s result~:j result_is_text~:b result_base64~:s error:s "
         "options:@options}"},
        {"claimed",
         "{id:i token:s hook:s " ARGS "attempt:i queue:s group:s priority:i attempts:i fence:i "
         "lease_ms:i created_ms:i maxrun_ms~:i}"},
        {"throttle_metric",
         "{name:s value:s? age_ms:i error:s note:s elevated:s? critical:s? level:" LEVEL "}"},
        {"throttle_status",
         "{mode:" MODE " enabled:b level:" LEVEL " since_ms:i target:s "
         "observed_level:" LEVEL " observed_target:s paused:b pause_left_ms:i "
         "targets:[{" TARGET_KEYS " metrics:[@throttle_metric]}] "
         "tiers:[{tier:" TIER " parked:i deferred:i would_defer:i released:i delay_ms:i "
         "returning:i enforce_delay_ms:i}] "
         "caps:{claim_size:i claims:i} ramp:@ramp "
         "adaptive:{mode:" MODE " limit:i running:i pressure:s? would_wait:i waited:i} "
         "checks:{mode:" MODE " granted:i refused:i would_refuse:i waiting:i rules:i starved:i} "
         "start_ms:i}"},
        {"throttle_event", "{at_ms:i event:s message:s}"},
        {"throttle_history",
         "{events:[{number:i at_ms:i event:s message:s}] "
         "deferrals:[{event:s hook:s tier:s count:i from_ms:i to_ms:i message:s}] "
         "older:i problem:s}"},
        {"ramp", "{running:b cycle:i cycles:i next_in_ms:i}"},
        {"holder", "{owner:s fence:i age_ms:i ttl_ms:i remaining_ms:i}"},
        {"limit_usage",
         "{name:s kind:<window,tokens> passing:b amount:i period_ms:i burst:i used:i left:i "
         "retry_ms:i reset_ms:i waiting_jobs:i waiting_clients:i}"},
        {"breaker_state",
         "{name:s state:<closed,open,half-open> reason:s probing:b held:b handlers:b passing:b "
         "since_ms:i retry_ms:i failures:i window_failures:i window_outcomes:i trips:i "
         "waiting_jobs:i threshold:i rate:i window_ms:i volume:i cooldown_ms:i cooldown_max_ms:i "
         "probe_ms:i}"},
        {"callback", "{hook:s " ARGS "job:i? signature~:s}"},
        {"now",
         "{at_ms:i start_ms:i mode:" MODE " check_mode:" MODE " level:" LEVEL " target:s since_ms:i "
         "observed_level:" LEVEL " observed_target:s paused:b pause_left_ms:i targets:[{" TARGET_KEYS "}] "
         "jobs:{ready:i scheduled:i waiting:i running:i finished:i failed_hour:i "
         "failed_from_ms:i parked:{critical:i high:i normal:i deferrable:i} "
         "returning:{critical:i high:i normal:i deferrable:i}} "
         "rates:{enqueued:s? started:s? completed:s? failed:s? deferred:s? granted:s? refused:s?} "
         "ramp:@ramp checks:{waiting:i rules:i starved:i} throttle_enabled:b "
         "locks_enabled:b everything_paused:b events:i}"},
        {"session", "{needs_login:b is_logged_in:b csrf:s version:s}"},
};

const struct shape command_shapes[] = {
        {"ENQUEUE", "{id:i}|{ids:[i]}"},
        {"JOB", "@job"},
        {"JOBS", "{jobs:[@job] cursor:s}"},
        {"EVENTS", "{events:[{event:s at_ms:i worker:s message:s}]}"},
        {"CANCEL", "@ok"},
        {"CLAIM", "{jobs:[@claimed]}"},
        {"COMPLETE", "@ok|{jobs:[@claimed]}"},
        {"FAIL", "@status"},
        {"RELEASE", "@ok"},
        {"EXTEND", "@ok"},
        {"PROGRESS", "@ok"},
        {"RETRY", "@status"},
        {"RETRYMANY", "{retried:i skipped:i cursor:s matched:i changed:i}|" BULK},
        {"RUN", "@status"},
        {"JOBCOUNTS",
         "{pending:i in-progress:i complete:i failed:i canceled:i ready:i scheduled:i waiting:i "
         "parked:i returning:i}"},
        {"CANCELMANY", BULK},
        {"RUNMANY", BULK},
        {"RETIERMANY", BULK},
        {"DELETEMANY", BULK},
        {"RETIER", "@ok"},
        {"WHY", "{id:i status:" STATUS " blockers:[{code:s message:s}] not_before_ms:i ahead:i?}"},

        {"QUEUES", "{queues:[{" QUEUE_KEYS "}]}"},
        {"QUEUE",
         "{" QUEUE_KEYS " cap:i claimsize:i claims:i lease:i fair:<off,on> backoff:s "
         "history:<default,full,failures,none>}"},
        {"PAUSE", "@ok"},
        {"RESUME", "@ok"},
        {"QUEUESET", "@ok"},
        {"UNQUEUE", "@ok"},
        {"CAP", "@ok"},
        {"UNCAP", "@ok"},
        {"CAPS", "{caps:[{name:s max:i weight:i running:i waiting:i}]}"},

        {"NOW", "@now"},
        {"SERIES",
         "{from_ms:i step_ms:i n:i "
         "metrics:[{target:s name:s elevated:s? critical:s? check:s? values:[s?]}] "
         "jobs:{" SERIES_JOBS "deferred:{critical:[i?] high:[i?] normal:[i?] deferrable:[i?]}} "
         "checks:{granted:[i?] refused:[i?]}}"},
        {"THROTTLED",
         "{actions:[{at_ms:i kind:<job,check> identity:s tier:" TIER " "
         "verdict:<deferred,would_defer,refused,would_refuse> reason:s target:s text:s job:i? "
         "times:i}]}"},
        {"WORKERS",
         "{workers:[{name:s address:s running:i waiting:i queues:[s] last_ms:i jobs:[i]}] "
         "running:i counted:i}"},

        {"THROTTLE", "@throttle_status|@throttle_history|{mode:" MODE "}|@ok"},
        {"THROTTLESTATUS", "@throttle_status"},
        {"THROTTLEHISTORY", "@throttle_history"},
        {"REGISTRY", "{patterns:[{pattern:s tier:" TIER " default:b}]}"},
        {"REGISTRYSET", "@ok"},
        {"REGISTRYUNSET", "@ok"},
        {"REGISTRYTRY", "{total:i moves:[{from:" TIER " to:" TIER " jobs:i}]}"},
        {"TIER", "{hook:s tier:" TIER " pattern:s}"},

        {"CHECK",
         "{verdict:<granted,refused> reason:" REASON " metric:s value:s? threshold:s? age_ms:i "
         "rule:s wait_ms:i credits:i credit_ms:i would:s target:s}"},
        {"RULESET", "{ok:b warning~:s}"},
        {"RULEUNSET", "@ok"},
        {"RULES",
         "{rules:[{name:s kind:<hold,ratio,exempt,metrics,threshold> slot:s target:s ratio:s? "
         "list:s mode:<observe,enforce> author:s address:s reason:s set_ms:i left_ms:i "
         "self_ending:b}] cursor:s}"},
        {"RULEHISTORY", "{entries:[{at_ms:i action:s rule:s author:s address:s text:s}]}"},
        {"PRIORITIZE", "{ok:b warning~:s}"},
        {"UNPRIORITIZE", "@ok"},
        {"CLIENTS", "{clients:[{" CLIENT_KEYS "}] cursor:s other:i start_ms:i}"},
        {"CLIENTSHOW",
         "{" CLIENT_KEYS " from_ms:i minutes_from_ms:i first_ms:i granted_ms:i refused_ms:i waited_ms:i authenticated:b "
         "identities:i reasons:{*:i} addresses:[{address:s last_ms:i}] parts:[s] "
         "story:[{text:s from_ms:i to_ms:i refused:i reason:" REASON " metric:s target:s}] "
         "minutes:[{at_ms:i asks:i granted:i refused:i observed:i waited_ms:i reason:s metric:s "
         "target:s}]}"},
        {"STARVED",
         "{starved:[{name:s since_ms:i asks:i refused:i reason:" REASON " metric:s starver:s "
         "starver_grants:i target:s}]}"},
        {"SKIPHOST", "@ok"},
        {"RECOVERHOST", "@ok"},
        {"SKIPPEDHOSTS", "{hosts:[{host:s until_ms:i left_ms:i}]}"},

        {"SCHEDULE", "{created:b state:<active,paused,stopped,done> next_ms:i?}"},
        {"UNSCHEDULE", "@ok"},
        {"SCHEDULED",
         "{name:s state:<active,paused,stopped,done> reason:s? cron:s? every_ms:i? zone:s? "
         "first_ms:i? until_ms:i? jitter_ms:i missed:<skip,one,all> window_ms:i? "
         "overlap:<skip,queue,allow,cancel> stop_after:i hook:s " ARGS "queue:s group:s? "
         "priority:i attempts:i timeout_ms:i? backoff:s? maxrun_ms:i? key:s? key_max:i? limit:s? target:s? "
         "expires_ms:i? result_ms:i? is_signed:b signature:s? next_ms:i? next:[i] last_slot_ms:i? "
         "last_job:i? jobs:i live_jobs:i missed_slots:i overlapped_slots:i failures:i}"},
        {"SCHEDULES",
         "{schedules:[{name:s state:<active,paused,stopped,done> hook:s queue:s cron:s? "
         "every_ms:i? zone:s? next_ms:i? last_slot_ms:i? last_job:i? failures:i}] cursor:s}"},
        {"PAUSESCHEDULE", "@ok"},
        {"RESUMESCHEDULE", "@ok"},
        {"RUNSCHEDULE", "{id:i}"},
        {"NEXTRUNS", "{next:[i]}"},
        {"SCHEDULETRY", "{next:[i]}"},

        {"BATCH", "@ok"},
        {"CLOSEBATCH", "{status:<closed,canceling,finished>}"},
        {"BATCHSTATE",
         "{" BATCH_KEYS " queue:s priority:i onsuccess:@callback? ondone:@callback?}"},
        {"BATCHES", "{batches:[{" BATCH_KEYS "}] cursor:s}"},
        {"CANCELBATCH", "{canceled:i}"},
        {"UNBATCH", "@ok"},

        {"LOCK",
         "{token:s fence:i ttl_ms:i until_ms:i count:i acquired:b}|"
         "{acquired:b name:s state:<free,held> count:i waiting:i holders:[@holder]}"},
        {"UNLOCK", "@ok"},
        {"RENEW", "{fence:i ttl_ms:i until_ms:i}"},
        {"LOCKED", "{name:s state:<free,held> count:i waiting:i holders:[@holder]}"},
        {"LOCKS",
         "{locks:[{name:s count:i held:i waiting:i owner:s fence:i age_ms:i remaining_ms:i}] "
         "cursor:s enabled:b}"},
        {"FORCEUNLOCK", "{released:i}"},

        {"LIMIT", "@ok"},
        {"UNLIMIT", "@ok"},
        {"USAGE", "@limit_usage"},
        {"LIMITS", "{limits:[@limit_usage]}"},
        {"TAKE", "{granted:i left:i retry_ms:i}"},
        {"RESETLIMIT", "@ok"},

        {"BREAKER", "@ok"},
        {"UNBREAKER", "@ok"},
        {"BREAKERSTATE", "@breaker_state"},
        {"BREAKERS", "{breakers:[@breaker_state]}"},
        {"ASK", "{verdict:<pass,probe,refused> token:s? retry_ms:i}"},
        {"REPORT", "{state:<closed,open,half-open>}"},
        {"TRIP", "@ok"},
        {"CLOSEBREAKER", "@ok"},

        {"SETTINGS",
         "{settings:[{name:s value:s? default:s? configured:s? "
         "type:<bool,choice,duration,integer,pair,number> choices:[s] min:s? max:s? unit:s text:s "
         "is_changed:b}]}"},
        {"SETTINGSET", "@ok"},
        {"SETTINGUNSET", "@ok"},
        {"SETTINGSTEXT", "{text:s}"},
        {"CONFIGRELOAD", "{changed:[s] needs_restart:[s]}"},
        {"CONFIGSHOW", "{text:s path:s loaded_ms:i command_line:[s]}"},
};
/* clang-format on */

const size_t named_shapes_len = ARRAY_LEN(named_shapes);
const size_t command_shapes_len = ARRAY_LEN(command_shapes);

const char *shape_of(const char *command)
{
        for (size_t i = 0; i < ARRAY_LEN(command_shapes); i++)
                if (strcmp(command_shapes[i].name, command) == 0)
                        return command_shapes[i].text;
        return NULL;
}

/* ---- reading them ---- */

/* Deeper than any answer is, far less than the stack could take. */
#define DEPTH_MAX 16

struct reading {
        const char *at;
        struct buf *b;
        unsigned depth;
};

static bool take(struct reading *r, char c)
{
        if (*r->at != c)
                return false;
        r->at++;
        return true;
}

static void need(struct reading *r, char c)
{
        ASSERT(*r->at == c);
        r->at++;
}

/* The bytes up to one of these. */
static struct slice take_word(struct reading *r, const char *ends)
{
        size_t len = strcspn(r->at, ends);
        ASSERT(len && r->at[len]);
        struct slice word = slice_make(r->at, len);
        r->at += len;
        return word;
}

/* Where the base that begins at `at` ends: at its '?', at a '|', or at what is around it. */
static const char *end_of_base(const char *at)
{
        unsigned open = 0;
        for (; *at; at++) {
                if (strchr("{[<", *at))
                        open++;
                else if (open && strchr("}]>", *at))
                        open--;
                else if (!open && strchr("?| }]", *at))
                        return at;
        }
        ASSERT(!open);
        return at;
}

static void put_type(struct buf *b, const char *type, bool is_nullable)
{
        json_put_key(b, "type");
        if (is_nullable)
                buf_put_byte(b, '[');
        json_put_text(b, slice_str(type));
        if (is_nullable)
                buf_put_str(b, ",\"null\"]");
}

static void read_choice(struct reading *r, bool is_nullable)
{
        put_type(r->b, "string", is_nullable);
        json_put_key(r->b, "enum");
        buf_put_byte(r->b, '[');
        do {
                json_put_comma(r->b);
                json_put_text(r->b, take_word(r, ",>"));
        } while (take(r, ','));
        need(r, '>');
        buf_put_str(r->b, is_nullable ? ",null]" : "]");
}

static void read_type(struct reading *r);

/* The members of an object: called a second time for the names alone of those that are needed.
 * Around it and in it, read_type() holds the depth below DEPTH_MAX. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static void read_members(struct reading *r, bool is_needed_only)
{
        while (*r->at != '}') {
                struct slice key = take_word(r, "~:");
                bool is_optional = take(r, '~');
                need(r, ':');
                if (is_needed_only) {
                        if (!is_optional) {
                                json_put_comma(r->b);
                                json_put_text(r->b, key);
                        }
                        r->at = end_of_base(r->at);
                        while (*r->at == '?' || *r->at == '|')
                                r->at = end_of_base(r->at + 1);
                } else {
                        json_put_comma(r->b);
                        json_put_text(r->b, key);
                        buf_put_byte(r->b, ':');
                        read_type(r);
                }
                ASSERT(*r->at == '}' || *r->at == ' ');
                while (take(r, ' ')) {
                }
        }
}

/* NOLINTNEXTLINE(misc-no-recursion): as above */
static void read_object(struct reading *r, bool is_nullable)
{
        put_type(r->b, "object", is_nullable);
        if (take(r, '*')) {
                need(r, ':');
                json_put_key(r->b, "additionalProperties");
                read_type(r);
                need(r, '}');
                return;
        }
        json_put_key(r->b, "additionalProperties");
        buf_put_str(r->b, "false");
        json_put_key(r->b, "properties");
        buf_put_byte(r->b, '{');
        const char *members = r->at;
        read_members(r, false);
        buf_put_byte(r->b, '}');
        json_put_key(r->b, "required");
        buf_put_byte(r->b, '[');
        r->at = members;
        read_members(r, true);
        buf_put_byte(r->b, ']');
        need(r, '}');
}

static void read_reference(struct reading *r, bool is_nullable)
{
        const char *end = end_of_base(r->at);
        if (is_nullable)
                buf_put_str(r->b, "\"oneOf\":[{");
        buf_put_str(r->b, "\"$ref\":\"#/components/schemas/");
        buf_put_slice(r->b, slice_make(r->at, (size_t)(end - r->at)));
        buf_put_byte(r->b, '"');
        if (is_nullable)
                buf_put_str(r->b, "},{\"type\":\"null\"}]");
        r->at = end;
}

/* NOLINTNEXTLINE(misc-no-recursion): as above */
static void read_base(struct reading *r)
{
        bool is_nullable = *end_of_base(r->at) == '?';
        buf_put_byte(r->b, '{');
        switch (*r->at++) {
        case 's':
                put_type(r->b, "string", is_nullable);
                break;
        case 'i':
                put_type(r->b, "integer", is_nullable);
                json_put_key(r->b, "format");
                buf_put_str(r->b, "\"int64\"");
                break;
        case 'b':
                put_type(r->b, "boolean", is_nullable);
                break;
        case 'j': /* no schema: anything */
                break;
        case '<':
                read_choice(r, is_nullable);
                break;
        case '[':
                put_type(r->b, "array", is_nullable);
                json_put_key(r->b, "items");
                read_type(r);
                need(r, ']');
                break;
        case '{':
                read_object(r, is_nullable);
                break;
        case '@':
                read_reference(r, is_nullable);
                break;
        default:
                ASSERT(!"a letter that means nothing in a shape");
        }
        (void)take(r, '?');
        buf_put_byte(r->b, '}');
}

/* NOLINTNEXTLINE(misc-no-recursion): at most DEPTH_MAX deep */
static void read_type(struct reading *r)
{
        ASSERT(r->depth < DEPTH_MAX);
        r->depth++;
        const char *end = end_of_base(r->at);
        bool is_one_of = *end == '|' || (*end == '?' && end[1] == '|');
        if (is_one_of)
                buf_put_str(r->b, "{\"oneOf\":[");
        read_base(r);
        while (take(r, '|')) {
                json_put_comma(r->b);
                read_base(r);
        }
        if (is_one_of)
                buf_put_str(r->b, "]}");
        r->depth--;
}

void shape_put_schema(struct buf *b, const char *text)
{
        struct reading r = {text, b, 0};
        read_type(&r);
        ASSERT(!*r.at);
}
