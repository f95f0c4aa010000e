extension Journal {
  /// The delay before the disk is tried again. A disk that soon fails again, such as a nearly full one, continues with
  /// longer delays.
  struct Mending {
    private var delays = Limit.mendingDelays[...]
    /// The next try waits for nothing.
    var isUrgent = false
    /// When it last worked again.
    var ended: Duration?
    /// The wait for the next try.
    var pause: Waiters.Key?

    mutating func nextDelay(at now: Duration) -> Duration {
      if isUrgent {
        isUrgent = false
        return .zero
      }
      if let ended, now - ended > Limit.longestSleep * 2 { delays = Limit.mendingDelays[...] }
      ended = nil
      return delays.popFirst() ?? Limit.longestSleep
    }
  }
}
