import Grants

@testable import Broker

/// A row of the model store: who has an account's lease, and when another broker may take it.
struct HeldLease: Equatable {
  /// An earlier holder whose request may still be answered.
  struct Unanswered: Equatable {
    var holder: Int
    var until: Duration
  }

  var fence: UInt64 = 0
  /// The broker that has it; nil: it was given back.
  var holder: Int?
  var until = Duration.zero
  /// When it was last granted or prolonged.
  var renewed = Duration.zero
  /// When the intent's first request could be sent.
  var sent = Duration.zero
  var unanswered: Unanswered?

  /// When the broker may take it.
  ///
  /// - Parameters:
  ///   - intent: of an unanswered request, on disk.
  ///   - ended: when the holder's run ended; nil: it has not.
  func end(
    for broker: Int, _ takeover: Takeover, _ intent: RefreshIntent?, ended: Duration?, at now: Duration
  ) -> Duration {
    if takeover.isForced { return now }
    var end = Duration.zero
    if let holder, holder != broker {
      if let ended {
        end = intent == nil || isRepeatable(takeover, at: now) ? .zero : ended + Takeover.pause
      } else {
        end = intent == nil || isRepeatable(takeover, at: max(now, until)) ? until : renewed + Takeover.delay
      }
    }
    if let unanswered, unanswered.holder != broker, intent != nil, !isRepeatable(takeover, at: now) {
      end = max(end, unanswered.until)
    }
    return end
  }

  private func isRepeatable(_ takeover: Takeover, at moment: Duration) -> Bool {
    switch takeover.rotation {
    case .none: true
    case .grace(let grace): moment + Takeover.sendingTime <= sent + grace
    case .strict: false
    }
  }

  /// The row after the broker got it.
  ///
  /// - Parameters:
  ///   - continues: the intent on disk is of the same refresh token.
  ///   - ended: whether the holder's run has ended.
  func granted(to broker: Int, for duration: Duration, continues: Bool, ended: Bool, at now: Duration) -> HeldLease {
    var new = HeldLease(
      fence: fence + 1, holder: broker, until: now + duration, renewed: now, sent: continues ? sent : now)
    guard continues else { return new }
    if let holder, holder != broker, !ended {
      new.unanswered = Unanswered(holder: holder, until: renewed + Takeover.delay)
    } else if unanswered?.holder != broker {
      new.unanswered = unanswered
    }
    return new
  }
}
