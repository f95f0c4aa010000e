/// A fault in the protocol of brokers that share a store, to test that the simulation finds it.
enum FleetFault: String, CaseIterable {
  /// Neither a commit nor a prolongation compares the fence.
  case noFence = "no-fence"
  /// A request is sent however late it is.
  case noSendCheck = "no-send-check"
  /// Expectations are evaluated before the row is locked: other brokers write in between.
  case noRowLock = "no-row-lock"
  /// Another broker gets a lease as soon as it ends, regardless of the rotation.
  case takeoverAtEnd = "takeover-at-end"
  /// The same, by the clocks of the machines.
  case takeoverByClock = "takeover-by-clock"
  /// The same, and leases are not prolonged.
  case takeoverUnprolonged = "takeover-unprolonged"
  /// Expectations compare the generation of the grant.
  case generation

  var takesOverAtEnd: Bool { [.takeoverAtEnd, .takeoverByClock, .takeoverUnprolonged].contains(self) }
}
