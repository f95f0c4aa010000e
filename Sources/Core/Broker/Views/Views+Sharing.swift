import BrokerAPI
import OAuth

extension Views {
  /// A machine without a sign of life for this time is silent.
  private static let silence = Duration.seconds(15)

  /// The machines that share the store.
  var sharingView: BrokerStatus.SharingView? {
    guard let sharing = journal.store.sharing else { return nil }
    let machines = sharing.machines.map { machine in
      BrokerStatus.MachineView(
        node: machine.id, name: machine.name, version: machine.version,
        state: machine.isOwn
          ? "self" : machine.hasEnded ? "stopped" : machine.seen > Self.silence ? "silent" : "running",
        seen_seconds: machine.seen.wholeSeconds,
        clock_offset_seconds: machine.clockOffset.map { Double($0.milliseconds) / 1000 }, leases: machine.leases)
    }
    return .init(
      machines: machines, leases: sharing.leases, schema: sharing.schema, warnings: sharing.warnings)
  }
}
