"""One of everything that weir keeps."""
from harness import claim


def fill(c):
    """One of everything that can be moved."""
    c("SETTINGSET", "throttle.delay.elevated.normal", "7m")
    c("REGISTRYSET", "erp*", "deferrable")
    c("SKIPHOST", "db3", "FOR", 3600000)
    c("QUEUESET", "mail", "CAP", 3, "CLAIMSIZE", 2, "CLAIMS", 4, "LEASE", 60000, "FAIR", "on",
      "BACKOFF", "fixed:5s", "HISTORY", "full")
    c("PAUSE", "mail")
    c("LIMIT", "api", 5, 10000, "KIND", "tokens", "BURST", 3)
    c("LIMIT", "plain", 5, 10000)
    c("BREAKER", "shop", "THRESHOLD", 7, "RATE", 50, "WINDOW", 60000, "VOLUME", 10, "COOLDOWN",
      1000, "COOLDOWNMAX", 9000, "PROBE", 2000)
    c("BREAKER", "queue:mail", "HANDLERS")
    c("CAP", "group:acme", 5, "WEIGHT", 2)
    c("CAP", "key:erp", 4)
    c("RULESET", "etl", "ratio", "RATIO", "0.5", "FOR", 3600000, "REASON", "two words")
    c("RULESET", "etl", "hold", "FOR", 3600000, "MODE", "observe")
    c("RULESET", "vip", "exempt", "SELFENDING", "FOR", 3600000)
    c("RULESET", "all", "metrics", "METRICS", "threads", "FOR", 7200000, "AUTHOR", "ann")
    c("SCHEDULE", "nightly", "report", '{"a":1}', "CRON", "0 5 * * *", "ZONE", "Europe/Berlin",
      "JITTER", 1000, "MISSED", "all", "WINDOW", 60000, "OVERLAP", "queue", "STOPAFTER", 3,
      "QUEUE", "r", "GROUP", "g", "PRIORITY", 9, "ATTEMPTS", 2, "TIMEOUT", 5000, "BACKOFF",
      "exp:5s,2,5m,15%", "KEY", "k", "KEYMAX", 2, "LIMIT", "api", "TARGET", "shop", "EXPIRES",
      60000, "RESULTFOR", 1000, "SIGNATURE", "k1:00")
    c("SCHEDULE", "pull", "sync", b"\xff\x00", "EVERY", 300000, "OVERLAP", "allow")
    c("PAUSESCHEDULE", "pull")
    c("BATCH", "open", "TITLE", "An open one", "ONSUCCESS", "good", "SUCCESSARGS", '{"b":[1]}',
      "ONDONE", "over", "DONEARGS", b"\xff", "QUEUE", "calls", "PRIORITY", 7,
      "SUCCESSSIGNATURE", "k1:01", "DONESIGNATURE", "k1:02")
    c("BATCH", "closed", "ONDONE", "over")
    c("ENQUEUE", "part", "1", "BATCH", "open", "QUEUE", "parts")
    c("ENQUEUE", "part", "2", "BATCH", "open", "QUEUE", "parts")
    got = claim(c, "parts")[0]
    c("COMPLETE", got.id, got.token)
    c("ENQUEUE", "part", "3", "BATCH", "closed", "QUEUE", "rest")
    c("CLOSEBATCH", "closed")
    c("ENQUEUE", "a", '{"n":1}', "QUEUE", "mail", "GROUP", "acme", "PRIORITY", 5, "ATTEMPTS", 9,
      "TIMEOUT", 90000, "KEY", "erp", "KEYMAX", 2, "TIER", "high", "BACKOFF", "list:1s,30s",
      "SIGNATURE", "k1:03", "LIMIT", "api", "TARGET", "shop", "RESULTFOR", 5000)
    c("ENQUEUE", "b", b"\xff\x00raw", "AFTER", "2,4", "WHEN", "ended", "OTHERWISE", "fail",
      "EXPIRES", 7200000)
    c("ENQUEUE", "c", ' {"spaces": 1} ', "IN", 3600000, "UNIQUE", "k1", "SCOPE", "after",
      "UNIQUEFOR", 60000)
    c("ENQUEUE", "d", '{"two":\n1}')
    c("ENQUEUE", "e", "")
