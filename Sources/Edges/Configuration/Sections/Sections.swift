import Broker
import Grants

/// Every table of the configuration; providers, accounts, rules and hooks have separate files.
enum Sections {
  static let callback = Section<Settings.CallbackSettings>(
    header: "[callback]",
    meaning: "The loopback address to which the browser returns after the sign-in.",
    keys: [
      Key("enabled", .flag, \.enabled, standard: "true", "Whether the broker listens for callbacks."),
      Key(
        "port", .number(0...65535), \.port, standard: "0",
        "The TCP port; 0: the kernel chooses, and the port is kept over restarts where it is free. "
          + "A loopback `redirect_uri` with another port is listened on as well."),
      Key("ipv4", .flag, \.ipv4, standard: "true", "Listen on 127.0.0.1."),
      Key("ipv6", .flag, \.ipv6, standard: "true", "Listen on ::1."),
      Key(
        "public_url", .publicOrigin, \.publicOrigin, standard: "none",
        "The public URL at which a reverse proxy of this machine receives callbacks for `port`: "
          + "`\"https://broker.example.com\"`. A `redirect_uri` or `post_logout_redirect_uri` there is answered then, and "
          + "no other path."),
    ])

  static let socket = Section<Settings.SocketSettings>(
    header: "[socket]",
    meaning:
      "The Unix socket that callers connect to, and their limits of the broker's memory and time. A user has each share "
      + "once, with the user's slice of control groups and subordinate user ids; so has a unit of the system. Root and "
      + "the broker's own user have separate shares. A change takes a restart.",
    keys: [
      Key(
        "path", .path, \.path,
        standard: "`/run/grantd/grantd.sock`; for a user `$XDG_RUNTIME_DIR/grantd/grantd.sock`",
        "Where the socket is. Socket activation wins over it."),
      Key(
        "mode", .mode, \.mode, standard: "\"0666\"; for a user \"0600\"",
        "Who may connect, as `chmod` writes it. Connecting alone allows nothing: rules do."),
      Key(
        "connections", .number(1...65536), \.connections, standard: "4096",
        "Connections at once, in all. Beyond it the user with the most loses an idle one."),
      Key(
        "connections_per_user", .number(1...65536), \.connectionsPerUser, standard: "1024",
        "Connections at once of one user or unit."),
      Key(
        "requests_per_connection", .number(1...4096), \.requestsPerConnection, standard: "64",
        "Requests at work at once for one connection; beyond them it is not read from."),
      Key(
        "request_memory_mb", .number(1...65536), \.requestMemory, standard: "32",
        "MiB of requests that are not answered, in all. Beyond it connections are not read until there is room. Parsed requests "
          + "may take twice as much."),
      Key(
        "request_memory_per_user_mb", .number(1...65536), \.requestMemoryPerUser, standard: "8",
        "The same of one user or unit."),
      Key(
        "reply_memory_mb", .number(1...65536), \.replyMemory, standard: "64",
        "MiB of replies and events that their callers have not read, in all. Beyond it replies become the error `overloaded`."
      ),
      Key(
        "reply_memory_per_user_mb", .number(1...65536), \.replyMemoryPerUser, standard: "8",
        "The same of one user or unit."),
      Key(
        "lines_per_second", .number(1...10_000_000), \.linesPerSecond, standard: "10000",
        "Requests in a second of one user or unit, including invalid or refused ones; four times as many after a pause. "
          + "Beyond it its connections are not read. Tokens that are served from memory are not counted."),
      Key(
        "mb_per_second", .number(1...65536), \.volumePerSecond, standard: "32",
        "MiB of requests and replies in a second of one user or unit; in the same way."),
      Key(
        "share_without_rule", .share(0.001...1), \.shareWithoutRule, standard: "0.0625",
        "The part of `connections`, of the memory, and of one user's rates that all callers together have that no rule names; one "
          + "of them has a quarter of it."),
      Key(
        "idle_timeout", .duration(.seconds(1)...(.days(1))), \.idleTimeout, standard: "\"10m\"",
        "A connection without requests is closed after this time."),
    ])

  static let refresh = Section<RefreshPolicy>(
    header: "[refresh]", meaning: "When access tokens are renewed.",
    keys: [
      Key(
        "share", .share(0.05...1), \.share, standard: "0.8", "A token is refreshed at this share of its lifetime, or…"),
      Key(
        "margin", .duration(.zero ... .days(1)), \.margin, standard: "\"5m\"",
        "…this long before its end, if that is earlier."),
      Key(
        "jitter", .share(0...0.5), \.jitter, standard: "0.1",
        "Each moment moves earlier by a random part of this share of the lifetime, so that accounts do not move in step."
      ),
      Key(
        "minimum_ttl", .duration(.zero ... .hours(1)), \.minimumTTL, standard: "\"30s\"",
        "The minimum remaining lifetime of a caller's token, unless the caller requests more."),
      Key(
        "retry_delays", .list(.duration(.seconds(1)...(.days(1))), of: "durations", orEmpty: false), \.retryDelays,
        standard: "[\"5s\", \"15s\", \"1m\", \"5m\", \"15m\"]",
        "The waits after failed refreshes; the last one repeats."),
      Key(
        "longest_retry_after", .duration(.seconds(1)...(.days(1))), \.longestRetryAfter, standard: "\"5m\"",
        "No `Retry-After` of a provider is obeyed beyond this. `grantctl refresh`, `grantctl doctor`, a reload and a restart "
          + "try sooner."),
      Key(
        "concurrent_per_provider", .number(1...1024), \.concurrentPerProvider, standard: "8",
        "Refreshes in flight at one provider. Requests stuck since an outage are not counted, up to the same number again (2 at least)."
      ),
      Key(
        "expiry_notice", .duration(.zero ... .days(365)), \.expiryNotice, standard: "\"7d\"",
        "When users are informed that a refresh token will end, but at most a quarter of its life before; "
          + "\"0s\": never."),
    ])

  static let metrics = Section<Settings.MetricsSettings>(
    header: "[metrics]",
    meaning:
      "A loopback address for metrics over HTTP. `broker.metrics` and `grantctl metrics` do not need it.",
    keys: [
      Key(
        "listen", .localAddress, \.listen, standard: "nowhere",
        "`GET /metrics` is answered here. Every program of this machine can read a port; a socket only grantd's user "
          + "and group.")
    ])

  static let lock = Section<Settings.LockSettings>(
    header: "[lock]",
    meaning:
      "When a user's broker locks automatically, under the passphrase of the previous `grantctl lock`. Not in the "
      + "system instance.",
    keys: [
      Key("on_suspend", .flag, \.onSuspend, standard: "false", "Lock before a suspend (logind's `PrepareForSleep`)."),
      Key(
        "on_screen_lock", .flag, \.onScreenLock, standard: "false",
        "Lock when a session of the user is locked (logind's `Lock`, as `loginctl lock-session` sends it)."),
    ])

  static let notify = Section<Settings.NotifySettings>(
    header: "[notify]", meaning: "Notices on the desktop of a user's broker. Not in the system instance.",
    keys: [
      Key(
        "enabled", .flag, \.isEnabled, standard: "true",
        "Show a notice with the command if a sign-in or an approval is needed; at most 10 in 10 minutes.")
    ])

  static let audit = Section<AuditPolicy>(
    header: "[audit]",
    meaning:
      "The audit trail: who got which token, who was refused, who signed in and out, who changed the rules. `grantctl audit` "
      + "reads it; the journal has it too.",
    keys: [
      Key("enabled", .flag, \.isEnabled, standard: "true", "Whether it is kept."),
      Key(
        "keep", .duration(.hours(1)...(.days(3650))), \.keep, standard: "\"90d\"",
        "Records are removed this long after their last time."),
      Key(
        "records", .number(1000...100_000_000), \.most, standard: "1000000",
        "The maximum number of records; the oldest are removed first, refusals before others."),
    ])

  static let callerLimits = Section<CallerLimits>(
    header: "[limits]",
    meaning:
      "The limit of requests for each caller: each user, and separately each unit and each executable of one user. "
      + "Tokens "
      + "from memory are not counted. A caller above the limit gets `rate_limited` for a while, and delays no other "
      + "caller.",
    keys: [
      Key(
        "requests_per_second", .number(1...1_000_000), \.rate, standard: "2000",
        "Requests in a second, in the long run."),
      Key(
        "burst", .number(1...10_000_000), \.burst, standard: "8000", "Requests that may come at once after a pause."),
      Key(
        "refusal_cost", .number(1...1000), \.refusalCost, standard: "10",
        "The number of requests that a request against the rules counts as."),
    ])

  static let clientMetadata = Section<Settings>(
    header: "[client_metadata]",
    meaning:
      "The client identifier at authorization servers that accept a client ID metadata document: the URL of a document that you "
      + "publish. `grantctl client-metadata` prints it.",
    keys: [
      Key(
        "url", .documentURL, \.clientMetadata, standard: "none",
        "The https URL of the document. It must have a path.")
    ])

  static let stepUp = Section<StepUpPolicy>(
    header: "[step_up]",
    meaning:
      "A server may require scopes that were not granted, or a newer sign-in (RFC 6750 §3.1, RFC 9470). `status`, an event and "
      + "the answer name the command.",
    keys: [
      Key(
        "ask", .flag, \.asks, standard: "false",
        "Whether a request of `/forward` or `request.send` waits for that sign-in and is sent again."),
      Key(
        "timeout", .duration(.seconds(5)...(.minutes(5))), \.within, standard: "\"2m\"",
        "With `ask`: how long a request waits. Then the caller gets the server's answer."),
    ])

  static let log = Section<Settings>(
    header: "[log]", meaning: "The lines that are written to the journal or the terminal.",
    keys: [
      Key(
        "level", .choice(["trace", "debug", "info", "notice", "warning", "error"]), \.logLevel, standard: "\"info\"",
        "The least important kind of line that is written.")
    ])
}
