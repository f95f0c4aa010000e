import Broker
import Grants
import OAuth

/// The row of one account's lease.
struct FleetLease {
  var fence: UInt64 = 0
  /// Nil: it was given back.
  var holder: Int?
  var until: Moment = 0
  var renewed: Moment = 0
  var sent: Moment = 0
  /// An earlier holder, and until when its request may be answered.
  var unanswered: (holder: Int, until: Moment)?

  /// The end of the lease itself.
  var leaseEnd: Moment { holder == nil ? 0 : until }

  /// When the broker may take it, if there is an intent.
  func end(_ takeover: Takeover, for number: Int, at now: Moment) -> Moment {
    if takeover.isForced { return now }
    var end: Moment = 0
    if let holder, holder != number {
      end = isRepeatable(takeover, at: max(now, until)) ? until : renewed + Takeover.delay.milliseconds
    }
    if let unanswered, unanswered.holder != number, !isRepeatable(takeover, at: now) {
      end = max(end, unanswered.until)
    }
    return end
  }

  private func isRepeatable(_ takeover: Takeover, at moment: Moment) -> Bool {
    switch takeover.rotation {
    case .none: true
    case .grace(let grace): moment + Takeover.sendingTime.milliseconds <= sent + grace.milliseconds
    case .strict: false
    }
  }

  /// - Parameter continues: the intent on disk is of the same refresh token.
  func granted(to number: Int, for duration: Moment, continues: Bool, at now: Moment) -> FleetLease {
    var new = FleetLease(
      fence: fence + 1, holder: number, until: now + duration, renewed: now, sent: continues ? sent : now)
    guard continues else { return new }
    if let holder, holder != number {
      new.unanswered = (holder, renewed + Takeover.delay.milliseconds)
    } else if unanswered?.holder != number {
      new.unanswered = unanswered
    }
    return new
  }
}
