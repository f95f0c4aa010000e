/// What is broken on purpose in the protocol of brokers that share a store, to see that it is found.
enum FleetFault: String, CaseIterable {
  /// Neither a commit nor a prolongation compares the fence.
  case noFence = "no-fence"
  /// A request is sent however late it is.
  case noSendCheck = "no-send-check"
  /// Another broker gets a lease as soon as it ends, regardless of the rotation.
  case takeoverAtEnd = "takeover-at-end"
  /// Expectations compare the generation of the grant.
  case generation
}
