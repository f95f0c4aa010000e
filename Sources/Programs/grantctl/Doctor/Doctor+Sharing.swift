import BrokerAPI
import PlainText

// The database that several machines share.
extension Doctor {
  func sharing(_ sharing: BrokerStatus.SharingView) -> [DoctorReport.Item] {
    let silent = sharing.machines.filter { $0.state == "silent" }
    let running = sharing.machines.count { $0.state == "self" || $0.state == "running" }
    let leases = "\(sharing.leases) refresh\(sharing.leases == 1 ? "" : "es") under way, schema \(sharing.schema)"
    let summary = DoctorReport.Item("machines", .ok, "\(running) running, \(leases)")
    return [summary]
      + silent.map { machine in
        DoctorReport.Item(
          "machine", .warning, SafeText.line(machine.line),
          hint: "Start grantd there. Until then its unanswered refreshes keep their accounts for up to 10 minutes.")
      }
      + sharing.warnings.map { DoctorReport.Item("database", .warning, SafeText.line($0), hint: Self.databaseHint) }
  }

  private static let databaseHint = "See docs/fleet.md: settings of the server, clocks, and connections."
}

extension BrokerStatus.MachineView {
  /// `alpha, running, grantd 0.1.0, clock +0.2 s`.
  var line: String {
    var parts = [
      name, state == "silent" ? "silent for \(TimeText.duration(seen_seconds))" : state, "grantd \(version)",
    ]
    if let offset = clock_offset_seconds, abs(offset) >= 1 {
      parts.append("clock \(offset < 0 ? "-" : "+")\(Int(abs(offset))) s")
    }
    if leases > 0 { parts.append("\(leases) refreshing") }
    return parts.joined(separator: ", ")
  }
}
