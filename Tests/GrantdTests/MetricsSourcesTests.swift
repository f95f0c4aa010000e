import Broker
import BrokerAPI
import Glibc
import Testing

@testable import Hooks
@testable import UnixSocket
@testable import grantd

/// The metrics of the socket, of the hooks and of the process.
@Suite struct MetricsSourcesTests {
  private func samples(_ families: [MetricFamily]) -> [String] {
    OpenMetrics.text(families).split(separator: "\n").filter { !$0.hasPrefix("#") }.map(String.init)
  }

  @Test("every budget of the socket has a sample, even if it was never exhausted; status has only the exhausted ones")
  func budgets() {
    var socket = SocketServer.SocketStatistics(connections: 3, accepted: 40, refused: 2)
    #expect(MetricsSources.heldBack(socket) == nil)
    socket.heldBack = [.requestMemory: 7, .rate: .max]
    socket.latestHeldBack = "rate of uid 1000"
    (socket.unansweredBytes, socket.waitingForRoom) = (4096, 5)
    #expect(
      samples(MetricsSources.families(socket)) == [
        "grantd_socket_connections 3", "grantd_socket_accepted_connections_total 40",
        "grantd_socket_refused_connections_total 2", "grantd_socket_held_back_total{budget=\"connections\"} 0",
        "grantd_socket_held_back_total{budget=\"request_memory\"} 7",
        "grantd_socket_held_back_total{budget=\"rate\"} 18446744073709551615",
        "grantd_socket_held_back_total{budget=\"unread_replies\"} 0", "grantd_socket_request_memory_bytes 4096",
        "grantd_socket_waiting_connections 5",
      ])
    let view = MetricsSources.heldBack(socket)
    #expect(view?.counts == ["request_memory": 7, "rate": .max] && view?.latest == "rate of uid 1000")
  }

  @Test("every result of a hook has a sample, even if no hook ended so")
  func hooks() {
    var hooks = Hooks.HookStatistics()
    hooks.results = [.failed: 2, .timedOut: 1]
    (hooks.dropped, hooks.running, hooks.queued) = (6, 3, 4)
    #expect(
      samples(MetricsSources.families(hooks)) == [
        "grantd_hook_runs_total{result=\"succeeded\"} 0", "grantd_hook_runs_total{result=\"failed\"} 2",
        "grantd_hook_runs_total{result=\"timed_out\"} 1", "grantd_hook_runs_total{result=\"not_started\"} 0",
        "grantd_hook_runs_total{result=\"stopped\"} 0", "grantd_hook_runs_dropped_total 6", "grantd_hooks_running 3",
        "grantd_hooks_queued 4",
      ])
  }

  @Test("the process's metrics have the names of all exporters, and values of this process")
  func process() throws {
    var values: [String: Double] = [:]
    for sample in samples(MetricsSources.process()) {
      let parts = sample.split(separator: " ")
      values[String(parts[0])] = Double(parts[1])
    }
    var limit = rlimit()
    try #require(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
    #expect(values["process_max_fds"] == Double(limit.rlim_cur))
    let open = try #require(values["process_open_fds"])
    #expect(open >= 1 && open <= Double(limit.rlim_cur))
    #expect(try #require(values["process_cpu_seconds_total"]) > 0)
    let resident = try #require(values["process_resident_memory_bytes"])
    #expect(resident > 0 && resident.truncatingRemainder(dividingBy: Double(sysconf(Int32(_SC_PAGESIZE)))) == 0)
    // The program's own pages are those of files.
    let (own, all) = (try #require(MetricsSources.ownMemory()), try #require(MetricsSources.residentMemory()))
    #expect(own > 0 && own < all)
  }
}
