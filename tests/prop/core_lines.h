/* Every command of the core as lines of a small grammar, for prop_core.c: [..] may be left out, a|b
 * is one of both, and $name is something of that kind that may or may not exist.  What is not in
 * `kinds` is a thing of the moment: an id, a time, a token. */
#ifndef WEIR_TESTS_PROP_CORE_LINES_H
#define WEIR_TESTS_PROP_CORE_LINES_H

/* With options that every job may have. */
#define PLACE  "[QUEUE $queue] [GROUP $group] [PRIORITY $few]"
#define TRIES  "[TIMEOUT $lease] [ATTEMPTS $some] [BACKOFF $backoff]"
#define SHARES "[KEY $key KEYMAX $some] [LIMIT $limit|queue:$queue] [TARGET $breaker|queue:$queue]"
#define ENDS   "[EXPIRES $lease] [RESULTFOR $lease]"
#define UNIQUE "[UNIQUE $unique SCOPE pending|running CONFLICT first|replace|reject]"
#define TIES                                                                                       \
        "[UNIQUE $unique SCOPE after UNIQUEFOR $lease] [BATCH $batch] "                            \
        "[AFTER $ids WHEN complete|failed|ended OTHERWISE cancel|fail]"
#define FILTER                                                                                     \
        "[STATUS pending|in-progress|complete|failed|canceled] [HOOK $hook] [QUEUE $queue] "       \
        "[GROUP $group] [TIER $tier] [WORKER $worker] [MATCH x]"

/* The first ones are what most of the work is: they are chosen half of the time. */
static const char *const lines[] = {
        "ENQUEUE $hook $args " PLACE " [IN $lease] " TRIES " " UNIQUE " " SHARES,
        "ENQUEUE $hook $args QUEUE $queue " TIES " " ENDS " [TIER $tier] [AT $at]",
        "ENQUEUE $hook $args " PLACE,
        "ENQUEUEMANY " PLACE " " SHARES " " ENDS " " TIES " JOBS $hook $args $hook $args $hook x",
        "CLAIM $worker [MAX $some] [WAIT $lease] [LEASE $lease] QUEUES $queues",
        "CLAIM $worker MAX 10 QUEUES $queues",
        "COMPLETE $held $args",
        "COMPLETE $held CLAIM $worker MAX $some [WAIT $lease] QUEUES $queues",
        "FAIL $held $args [RETRYIN $lease]",
#define OFTEN 9
        "FAIL $held no NORETRY",
        "RELEASE $held [IN $lease]",
        "EXTEND $held $lease",
        "PROGRESS $held half",
        "CANCEL $id",
        "JOB $id",
        "JOBS " FILTER " [ORDER newest|oldest] [LIMIT $some]",
        "JOBCOUNTS [QUEUE $queue]",
        "EVENTS $id",
        "WHY $id",
        "QUEUES",
        "QUEUE $queue",
        "PAUSE $queue",
        "RESUME $queue",
        "RESUME $queue",
        "QUEUESET $queue [CAP $few] [CLAIMSIZE $few] [CLAIMS $few] [LEASE $lease] [FAIR off|on] "
        "[BACKOFF $backoff]",
        "QUEUESET drop HISTORY none|failures|full",
        "UNQUEUE $queue",
        "CAP key:$key $few",
        "CAP group:$group $few [WEIGHT $some]",
        "UNCAP key:$key|group:$group",
        "CAPS",
        "BATCH $batch [ONSUCCESS $hook SUCCESSARGS $args] [ONDONE $hook DONEARGS $args] "
        "[QUEUE $queue] [PRIORITY $few] [COMPLETE $few]",
        "CLOSEBATCH $batch",
        "CANCELBATCH $batch",
        "UNBATCH $batch",
        "BATCHSTATE $batch",
        "BATCHES",
        "BREAKER $breaker [THRESHOLD $few] [RATE 50 WINDOW 1000 VOLUME 2] [COOLDOWN $lease] "
        "[PROBE $lease]",
        "BREAKER queue:$queue THRESHOLD $some COOLDOWN $lease HANDLERS",
        "UNBREAKER $breaker|queue:$queue",
        "BREAKERS",
        "BREAKERSTATE $breaker",
        "ASK $breaker",
        "REPORT $asked ok|fail",
        "TRIP $breaker [HOLD]",
        "CLOSEBREAKER $breaker|queue:$queue",
        "CANCELMANY " FILTER " [DRYRUN]",
        "CANCELMANY IDS $ids",
        "RUNMANY " FILTER " [DRYRUN]",
        "RETIERMANY " FILTER " [DRYRUN] SET $tier",
        "DELETEMANY " FILTER " [DRYRUN]",
        "DELETEMANY IDS $ids",
        "RETIER $id $tier|registered",
        "RETRY $id [FORCE]",
        "RETRYMANY [STATUS failed|canceled] [HOOK $hook] [LIMIT $some]",
        "RETRYMANY IDS $ids",
        "RETRYMANY STATUS failed DRYRUN",
        "RUN $id",
        "SKIPHOST $host",
        "RECOVERHOST $host",
        "SKIPPEDHOSTS",
        "LIMIT $limit|queue:$queue|hook:$hook $some $lease [KIND window|tokens] [BURST $some]",
        "UNLIMIT $limit|queue:$queue|hook:$hook",
        "TAKE $limit [COST $few] [WAIT $lease]",
        "TAKE $limit AMOUNT $some PERIOD $lease",
        "RESETLIMIT $limit",
        "LIMITS",
        "USAGE $limit",
        "LOCK $lock PX $lease [WAIT $lease] [COUNT $some] [OWNER $worker]",
        "UNLOCK $locked",
        "RENEW $locked PX $lease",
        "FORCEUNLOCK $lock",
        "LOCKED $lock",
        "LOCKS",
        "RULESET $hook|job:$hook hold|exempt [FOR $lease] [MODE observe|enforce] [TARGET shop]",
        "RULESET $hook ratio RATIO 0.5",
        "RULEUNSET $hook|job:$hook",
        "RULES",
        "RULEHISTORY",
        "PRIORITIZE $hook RATIO 0.5",
        "UNPRIORITIZE $hook",
        "CHECK job:$hook [PRIORITY $tier] [COST $some] [WAIT $lease]",
        "CLIENTS",
        "CLIENTSHOW $hook",
        "STARVED",
        "SCHEDULE $schedule $hook $args EVERY $every [JITTER $lease] [MISSED skip|one|all] "
        "OVERLAP skip|queue|allow|cancel [STOPAFTER $few] " PLACE " " TRIES " " SHARES " " ENDS,
        "UNSCHEDULE $schedule",
        "UNSCHEDULE $schedule",
        "SCHEDULES",
        "SCHEDULED $schedule",
        "PAUSESCHEDULE $schedule",
        "RESUMESCHEDULE $schedule",
        "RUNSCHEDULE $schedule",
        "NEXTRUNS $schedule",
        "SCHEDULETRY EVERY 1000",
        "SETTINGS",
        "SETTINGSET throttle.enabled|locks.enabled true|false",
        "SETTINGSET throttle.mode|check.mode off|test_observe|observe|enforce",
        "SETTINGSET throttle.max_deferral $few",
        "SETTINGSET throttle.deferrals_per_hour $few",
        "SETTINGSET throttle.max_deferral 0s|500ms|5s",
        "SETTINGSET throttle.expiry.$late start|expire",
        "SETTINGSET throttle.delay.critical.$late 0s|700ms|3s|60s",
        "SETTINGUNSET throttle.delay.critical.$late|throttle.max_deferral",
        "SETTINGUNSET throttle.enabled|locks.enabled|throttle.mode|check.mode",
        "THROTTLE STATUS|RESUME|HISTORY",
        "THROTTLE PAUSE [FOR 1000]",
        "THROTTLE MODE|CHECKMODE SET off|test_observe|observe|enforce",
        "THROTTLESTATUS",
        "THROTTLEHISTORY",
        "REGISTRY",
        "REGISTRYSET $hook* $tier",
        "REGISTRYSET $hook* $tier",
        "REGISTRYUNSET $hook*",
        "REGISTRYTRY $hook* $tier",
        "TIER $hook",
        "NOW",
        "SERIES",
        "THROTTLED",
        "WORKERS",
};

static const struct {
        const char *name, *of[6];
} kinds[] = {
        {"queue", {"a", "b", "c", "drop", "a", "b"}},
        {"hook", {"mail", "sync", "report", "mail", "clean", "x"}},
        {"group", {"g1", "g2", "g1", "g2", "g3", "g1"}},
        {"args", {"", "1", "x", "{\"a\":1}", "y", "long text with x"}},
        {"few", {"0", "1", "2", "3", "1", "2"}},
        {"some", {"1", "2", "3", "1", "2", "5"}},
        {"lease", {"100", "300", "1000", "3000", "500", "2000"}},
        {"every", {"300", "700", "1500", "4000", "1000", "2500"}},
        {"backoff", {"none", "fixed:1s", "exp:100ms,2,2s,15%", "list:1s,2s", "none", "fixed:1s"}},
        {"key", {"k1", "k2", "k3", "k1", "k2", "k1"}},
        {"limit", {"r1", "r2", "r1", "r2", "r1", "r2"}},
        {"breaker", {"b1", "b2", "b1", "b2", "b1", "b2"}},
        {"unique", {"u1", "u2", "u3", "u4", "*", "u1"}},
        {"batch", {"t1", "t2", "t3", "t1", "t2", "t3"}},
        {"tier", {"critical", "high", "normal", "deferrable", "normal", "high"}},
        {"late", {"high", "normal", "deferrable", "high", "normal", "deferrable"}},
        {"worker", {"w1", "w2", "w3", "w1", "w2", "w3"}},
        {"lock", {"l1", "l2", "l1", "l2", "l1", "l2"}},
        {"schedule", {"s1", "s2", "s3", "s1", "s2", "s3"}},
        {"host", {"db1", "db2", "db1", "db2", "db1", "db2"}},
};

#endif
