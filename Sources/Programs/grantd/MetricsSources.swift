import Broker
import BrokerAPI
import Glibc
import Hooks
import UnixSocket

/// The counts of other parts of the daemon, as metrics.
enum MetricsSources {
  static func families(_ socket: SocketServer.SocketStatistics) -> [MetricFamily] {
    var open = MetricFamily(.gauge, "grantd_socket_connections", "Connections of the socket that are open.")
    open.add(socket.connections)
    var accepted = MetricFamily(.counter, "grantd_socket_accepted_connections", "Connections that got a place.")
    accepted.add(socket.accepted)
    var refused = MetricFamily(
      .counter, "grantd_socket_refused_connections",
      "Connections that were refused, or closed to make room for others: too many were open, in all or of one user.")
    refused.add(socket.refused)
    var heldBack = MetricFamily(
      .counter, "grantd_socket_held_back",
      "How often callers had to wait or were refused, by the budget of theirs, or of all, that was used up.")
    for budget in SocketServer.Budgeted.allCases {
      heldBack.add(socket.heldBack[budget, default: 0], ["budget": budget.rawValue])
    }
    var memory = MetricFamily(
      .gauge, "grantd_socket_request_memory_bytes", unit: "bytes", "Requests that are not answered.")
    memory.add(socket.unansweredBytes)
    var waiting = MetricFamily(
      .gauge, "grantd_socket_waiting_connections",
      "Connections that are not read until there is room for their requests.")
    waiting.add(socket.waitingForRoom)
    return [open, accepted, refused, heldBack, memory, waiting]
  }

  /// Its part of `broker.status`.
  static func heldBack(_ socket: SocketServer.SocketStatistics) -> BrokerStatus.HeldBackView? {
    guard !socket.heldBack.isEmpty else { return nil }
    return .init(
      counts: Dictionary(uniqueKeysWithValues: socket.heldBack.map { ($0.key.rawValue, Int64(clamping: $0.value)) }),
      latest: socket.latestHeldBack)
  }

  static func families(_ hooks: Hooks.HookStatistics) -> [MetricFamily] {
    var runs = MetricFamily(.counter, "grantd_hook_runs", "Runs of on_event hooks that ended, by result.")
    for result in HookResult.allCases { runs.add(hooks.results[result, default: 0], ["result": result.rawValue]) }
    var dropped = MetricFamily(.counter, "grantd_hook_runs_dropped", "Runs of hooks that gave way, as too many waited.")
    dropped.add(hooks.dropped)
    var running = MetricFamily(.gauge, "grantd_hooks_running", "Hooks that run.")
    running.add(hooks.running)
    var queued = MetricFamily(.gauge, "grantd_hooks_queued", "Runs of hooks that wait for a place.")
    queued.add(hooks.queued)
    return [runs, dropped, running, queued]
  }

  /// The process's metrics, under the names of all exporters. Unknown values are omitted.
  static func process() -> [MetricFamily] {
    var cpu = MetricFamily(.counter, "process_cpu_seconds", unit: "seconds", "Processor time, user and system.")
    var usage = rusage()
    if getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
      cpu.add(usage.ru_utime.duration + usage.ru_stime.duration)
    }
    var resident = MetricFamily(.gauge, "process_resident_memory_bytes", unit: "bytes", "Memory in use.")
    if let bytes = residentMemory() { resident.add(bytes) }
    var open = MetricFamily(.gauge, "process_open_fds", "Open file descriptors.")
    if let count = openDescriptors() { open.add(count) }
    var most = MetricFamily(.gauge, "process_max_fds", "How many file descriptors may be open.")
    var limit = rlimit()
    if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 { most.add(UInt64(limit.rlim_cur)) }
    return [cpu, resident, open, most]
  }

  /// Bytes, by the second number of `/proc/self/statm` (proc_pid_statm(5)).
  static func residentMemory() -> Int? { memory(1) }

  /// The same without pages of files, such as the program's.
  static func ownMemory() -> Int? {
    guard let resident = memory(1), let ofFiles = memory(2) else { return nil }
    return resident - ofFiles
  }

  private static func memory(_ column: Int) -> Int? {
    guard let file = fopen("/proc/self/statm", "re") else { return nil }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    guard fgets(&line, Int32(line.count), file) != nil else { return nil }
    let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    let words = text.split(separator: " ")
    return words.count > column ? Int(words[column]).map { $0 * Int(sysconf(Int32(_SC_PAGESIZE))) } : nil
  }

  private static func openDescriptors() -> Int? {
    guard let folder = opendir("/proc/self/fd") else { return nil }
    defer { closedir(folder) }
    var count = 0
    while readdir(folder) != nil { count += 1 }
    // `.`, `..`, and the one that looks.
    return max(0, count - 3)
  }
}

extension timeval {
  fileprivate var duration: Duration { .seconds(tv_sec) + .microseconds(tv_usec) }
}
