extension Journal {
  /// The delay before the disk is tried again. A disk that soon fails again, such as a nearly full one, continues with
  /// longer delays.
  struct RepairState {
    enum Recovery {
      case trying
      /// The database is being rebuilt: no other commits.
      case rebuilding
    }

    var recovery: Recovery?
    private var delays = Limit.repairDelays[...]
    /// The next try waits for nothing.
    private var isUrgent = false
    /// When it last worked again.
    var ended: Duration?
    /// The wait for the next try.
    var pause: Waiters.Key?

    /// The database is lost: the next try waits for nothing.
    ///
    /// - Returns: the wait to end.
    mutating func hurry() -> Waiters.Key? {
      (delays, isUrgent, ended) = (Limit.repairDelays[...], pause == nil, nil)
      return pause
    }

    mutating func nextDelay(at now: Duration) -> Duration {
      if isUrgent {
        isUrgent = false
        return .zero
      }
      if let ended, now - ended > Limit.longestSleep * 2 { delays = Limit.repairDelays[...] }
      ended = nil
      return delays.popFirst() ?? Limit.longestSleep
    }
  }
}
